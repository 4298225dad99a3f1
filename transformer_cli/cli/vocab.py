"""``transformer-cli vocab``."""

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log, pair_bar, say, warn
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.config import base_files, schema, yaml
    from transformer_cli.data import lengths, sources
    from transformer_cli.runs import (
        contents,
        corpus_location,
        directory,
        initial_weights,
        initialize,
        lock,
        overwrite as overwriting,
    )
    from transformer_cli.training import (
        preparation,
        sources as training_sources,
        texts as read_texts,
        vocabulary_summary,
    )


def vocab(
    config: options.Config,
    run_dir: options.RunDir = None,
    set_: options.Set = None,
    overwrite: options.Overwrite = False,
    version: options.Version = False,
) -> None:
    """Build the vocabularies or subword models of an experiment.

    Finds or fetches the corpus, learns from its training side, writes the tokenizer and the encoded
    training text into the run directory and prints a summary. `train` does this by itself where it
    is missing.

    \b
    Example:
      transformer-cli vocab configs/toy.yaml
    """
    run = directory.RunDirectory(options.run_directory(config, run_dir))
    options.restore_previous(run.path, config.parent)
    settings, origins = yaml.load_settings(config, set_ or [])
    sources.check_has_text(settings.data, config)
    lock.check_unlocked(run)  # before torch is imported, so that a second writer fails at once
    contents.check_config_files(run.path, base_files.list_base_files(config))
    if overwrite:
        run.check_no_foreign_files()
    initial_weights.check_init(settings, run, overwrite)
    # Training will reuse the encoded text without reading the corpus, so it is audited here. Of
    # kind corpus, there is no text before the sources are read into the run.
    texts = None
    if not training_sources.reads_sources(settings.data):
        texts = read_texts.audit_texts(settings.data, run, overwrite, True, warn)
    existed = run.path.is_dir()
    with lock.lock_run(run), overwriting.finish_on_exit(run.path, options.say_put_back):
        with overwriting.undo_beginning(run.path, existed):
            initialize.initialize_run(run, settings, overwrite, origins)
            corpus_location.record_corpus_directory(run, settings.data)
            if texts is None:
                training_sources.prepare_sources(settings.data, run, pair_bar, log)
                texts = read_texts.audit_texts(settings.data, run, overwrite, True, warn)
            data = preparation.prepare_data(settings, texts, run, line_bar)
        overwriting.check_set_aside_is_ours(run.path)
        overwriting.discard_previous(run.path)
    _print_summary(settings, *vocabulary_summary.summarize_sides(data))
    left_out = f"{texts.blank_in_train} of train, {texts.blank_in_val} of val"
    say(f"pairs with a blank side, left out: {left_out}")
    say(f"written to {run.tokenizer}")


def _print_summary(
    settings: "schema.Config",
    src: "vocabulary_summary.SideSummary",
    tgt: "vocabulary_summary.SideSummary",
) -> None:
    percentiles = "/".join(map(str, lengths.PERCENTILES))
    note = settings.tokenizer.size_note
    rows = [
        ("", f"source ({settings.data.src_lang})", f"target ({settings.data.tgt_lang})"),
        ("lines", *(f"{side.lines:,}" for side in (src, tgt))),
        ("tokens", *(f"{side.tokens:,}" for side in (src, tgt))),
        ("types", *("-" if side.types is None else f"{side.types:,}" for side in (src, tgt))),
        ("vocabulary", *(f"{side.size:,} ({note})" for side in (src, tgt))),
        ("unknown in val", *(f"{side.unknown_in_val:.2%}" for side in (src, tgt))),
        (
            f"tokens a line, percentiles {percentiles}",
            *("/".join(map(str, side.lengths)) for side in (src, tgt)),
        ),
    ]
    for label, *cells in rows:
        say(f"{label:<40}" + "".join(f"{cell:<26}" for cell in cells).rstrip())

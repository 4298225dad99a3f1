"""``transformer-cli vocab``."""

from typing import TYPE_CHECKING

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log, pair_bar, say, warn

if TYPE_CHECKING:
    from transformer_cli.config.schema import Config
    from transformer_cli.training.vocabulary_summary import SideSummary


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
    from transformer_cli.config.yaml import list_base_files, load_settings
    from transformer_cli.data.sources import check_has_text
    from transformer_cli.runs.contents import check_config_files
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.lock import check_unlocked, lock_run
    from transformer_cli.runs.overwrite import (
        check_set_aside_is_ours,
        discard_previous,
        finish_on_exit,
        undo_beginning,
    )

    run = RunDirectory(options.run_directory(config, run_dir))
    options.restore_previous(run.path, config.parent)
    settings, origins = load_settings(config, set_ or [])
    check_has_text(settings.data, config)
    check_unlocked(run)  # before torch is imported, so that a second writer fails at once
    check_config_files(run.path, list_base_files(config))
    if overwrite:
        run.check_no_foreign_files()

    from transformer_cli.runs.corpus_location import record_corpus_directory
    from transformer_cli.runs.initial_weights import check_init
    from transformer_cli.runs.initialize import initialize_run
    from transformer_cli.training.preparation import prepare_data
    from transformer_cli.training.sources import prepare_sources, reads_sources
    from transformer_cli.training.texts import audit_texts
    from transformer_cli.training.vocabulary_summary import summarize_sides

    check_init(settings, run, overwrite)
    # Training will reuse the encoded text without reading the corpus, so it is audited here. Of
    # kind corpus, there is no text before the sources are read into the run.
    texts = None
    if not reads_sources(settings.data):
        texts = audit_texts(settings.data, run, overwrite, True, warn)
    existed = run.path.is_dir()
    with lock_run(run), finish_on_exit(run.path, options.say_put_back):
        with undo_beginning(run.path, existed):
            initialize_run(run, settings, overwrite, origins)
            record_corpus_directory(run, settings.data)
            if texts is None:
                prepare_sources(settings.data, run, pair_bar, log)
                texts = audit_texts(settings.data, run, overwrite, True, warn)
            data = prepare_data(settings, texts, run, line_bar)
        check_set_aside_is_ours(run.path)
        discard_previous(run.path)
    _print_summary(settings, *summarize_sides(data))
    left_out = f"{texts.blank_in_train} of train, {texts.blank_in_val} of val"
    say(f"pairs with a blank side, left out: {left_out}")
    say(f"written to {run.tokenizer}")


def _print_summary(settings: "Config", src: "SideSummary", tgt: "SideSummary") -> None:
    from transformer_cli.data.lengths import PERCENTILES

    percentiles = "/".join(f"{each}" for each in PERCENTILES)
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

"""``transformer-cli report``."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from transformer_cli.base import registry
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import option
from transformer_cli.cli.display import line_bar, log, say, scoring_bar, warn
from transformer_cli.extensions.report.command_attention import check_sentence

with lazy_imports():
    from transformer_cli.base import compression, files, writing
    from transformer_cli.evaluation import best_checkpoint
    from transformer_cli.extensions.report import rendering, run_page
    from transformer_cli.inference import loading
    from transformer_cli.runs import checkpoint as checkpoints, directory as directories
    from transformer_cli.text import tokenizer

Output = Annotated[
    Path | None, option("FILE", "The page.  [default: RUN/report.html]", "--output", "-o")
]
Sentences = Annotated[
    list[str] | None, option("TEXT", "Show the attention of this sentence too; repeatable.")
]


def report(
    run: options.Run,
    output: Output = None,
    split: options.Split = None,
    sentence: Sentences = None,
    checkpoint: options.Checkpoint = "best",
    beam_size: options.BeamSize = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
) -> None:
    """Report on a trained model as one HTML page: curves, scores, translations, attention.

    The page is one self-contained file: it works offline and opens in any browser. During training
    it shows the best model so far. For a sweep's directory, it shows all runs side by side, and the
    other options have no effect.

    \b
    Example:
      transformer-cli report runs/toy --sentence 'Ein Hund schläft.'
    """
    directory = directories.RunDirectory(run)
    make_page = _find_page(run)
    if make_page is None:
        directory.load_config()  # or it is no run
        directory.check_not_exported()
    default = directory.path / "report.html"
    page = output or default
    options.check_output(page, runs=[run], default=default)
    if page.parent.resolve() / page.name == default.parent.resolve() / default.name:
        files.check_replaceable(default)
    with writing.claim(output):
        if make_page is not None:
            html = make_page()
        else:
            compute = loading.ComputeOptions("auto", device, precision, threads, beam_size)
            html = _render_run(directory, split, checkpoint, compute, sentence or [])
        compression.write_text(page, html, is_named=output is not None)
    say(str(page))


def _find_page(directory: Path) -> Callable[[], str] | None:
    """Return what makes another extension's page of this directory; None: it has none."""
    for entry in registry.entries("report page").values():
        if (directory / entry.facts["mark"]).is_file():
            return entry.load()(directory, log)  # type: ignore[no-any-return]
    return None


def _render_run(
    run: "directories.RunDirectory",
    split: str | None,
    checkpoint: str,
    compute: "loading.ComputeOptions",
    texts: Sequence[str],
) -> str:
    """Return the page of a run, with the attention of these sentences."""
    for text in texts:
        check_sentence(text, "--sentence")
    plotly = rendering.plotly_script()  # before long work
    advice = f"score it on yours with: transformer-cli evaluate {run.path} --src FILE --ref FILE"
    name, pairs = options.load_split(run, split, advice)
    # The same checkpoint throughout, even if a training replaces the best one meanwhile.
    weights = checkpoints.find_checkpoint(run.checkpoints, checkpoint)
    translator, searcher = options.load_models(run, str(weights), compute)
    opened = checkpoints.Checkpoint.open(weights, tokenizer.fingerprint(run.tokenizer))
    subject = run_page.Subject(
        run.path.absolute().name,
        run,
        translator,
        checkpoint,
        opened.load_state().step,
        name,
        pairs,
        searcher,
        best_checkpoint.metrics_of_runs(run.load_config(), [run], log),
    )
    with options.prefix_errors("--sentence: "):
        sentences = [run_page.pack_sentence(translator, text) for text in texts]
    with scoring_bar(len(pairs), name) as count_translated:
        return run_page.make_run_page(
            subject, sentences, plotly, line_bar, count_translated, partial(warn, name)
        )

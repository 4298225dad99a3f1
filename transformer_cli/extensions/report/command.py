"""``transformer-cli report``."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from transformer_cli.base import registry
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import option
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.base import files, text_files, writing
    from transformer_cli.extensions.report import run_page
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory as directories

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
            html = run_page.render_run(directory, split, checkpoint, compute, sentence or [])
        text_files.write_text(page, html, is_named=output is not None)
    say(str(page))


def _find_page(directory: Path) -> Callable[[], str] | None:
    """Return what makes another extension's page of this directory; None: it has none."""
    for entry in registry.entries("report page").values():
        if (directory / entry.facts["mark"]).is_file():
            return entry.load()(directory, log)  # type: ignore[no-any-return]
    return None

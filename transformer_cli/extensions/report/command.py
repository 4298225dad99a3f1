"""The command ``transformer-cli report``, which writes an HTML page about a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by, option
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.base import files, text_files, writing
    from transformer_cli.extensions.report import run_page
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory as directories


@dataclass(frozen=True)
class ReportOptions(CommandOptions):
    """The options of ``report``: run, page, text, checkpoint, beam size and hardware."""

    run: options.Run
    output: Annotated[
        Path | None, option("FILE", "Page to write.  [default: RUN/report.html]", "--output", "-o")
    ] = None
    split: options.Split = None
    sentence: Annotated[
        list[str] | None, option("TEXT", "Also show the attention for this sentence; repeatable.")
    ] = None
    checkpoint: options.Checkpoint = "best"
    beam_size: options.BeamSize = None
    device: options.Device = "auto"
    precision: options.Precision = "auto"
    threads: options.Threads = None


@declared_by(ReportOptions)
def report(given: ReportOptions) -> None:
    """Write an HTML page about a run: curves, scores, translations and attention.

    The page is one file that works offline. If the run is still training, it shows the best model
    so far.

    \b
    Example:
      transformer-cli report runs/toy --sentence 'Ein Hund schläft.'
    """
    given.check_extras()
    directory = directories.RunDirectory(given.run)
    directory.load_config()  # raises an error if this is not a run
    directory.check_not_exported()
    default = directory.path / "report.html"
    page = given.output or default
    if page.parent.resolve() / page.name == default.parent.resolve() / default.name:
        files.check_replaceable(default)
    else:
        options.check_output(page, runs=[given.run])
    with writing.claim(given.output):
        search = {"beam_size": given.beam_size}
        compute = loading.ComputeOptions(
            "auto", given.device, given.precision, given.threads, search
        )
        html = run_page.render_run(
            directory,
            given.split,
            given.checkpoint,
            compute,
            sentences=given.sentence or [],
            given=given,
        )
        text_files.write_text(page, html, is_named=given.output is not None)
    say(str(page))

"""The commands ``report``, which writes an HTML page about a run, and ``runs``."""

import json as json_format
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.messages import bar, duration, warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, option
from transformer_cli.cli.display import align_columns, say
from transformer_cli.config.choices import METRICS

with lazy_imports():
    from transformer_cli.base import files, text_files, writing
    from transformer_cli.extensions.report import run_list, run_page
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory as directories

if TYPE_CHECKING:
    from transformer_cli.extensions.report.run_list import RunSummary

Paths = Annotated[
    list[Path] | None,
    argument("PATH", "Runs, or directories to search for runs.  [default: runs]"),
]


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


def runs(paths: Paths = None, json: options.Json = False) -> None:
    """List runs: size, steps, best score in validation, and state.

    A run is finished, stopped (train resumes it), in use by another process, prepared (without a
    checkpoint), or damaged.

    \b
    Example:
      transformer-cli runs
      transformer-cli runs sweeps/rate --json
    """
    directories = run_list.find_runs(paths or [Path("runs")])
    shown = bar(len(directories), "reading", " runs", items=directories)
    found = list(map(run_list.summarize, shown))
    if json:
        say(json_format.dumps([asdict(each) for each in found]))
        return
    heads = ["run", "state", "languages", "parameters", "steps", "epochs", "time", "best", "disk"]
    say("\n".join(align_columns([heads, *map(_row, found)], left=3)))
    for each in found:
        if each.problem:
            warn(each.run, each.problem)


def _row(run: "RunSummary") -> list[str]:
    label = METRICS[run.metric].label if run.metric else ""
    return [
        run.run,
        run.state,
        run.languages or "-",
        "-" if run.parameters is None else f"{run.parameters:,}",
        f"{run.steps:,}" if run.steps else "-",
        f"{run.epochs:,}" if run.steps else "-",
        duration(run.seconds) if run.steps else "-",
        "-" if run.score is None else f"{label} {run.score:.2f}",
        f"{run.bytes / 1e6:,.0f} MB",
    ]

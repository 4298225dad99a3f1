"""``transformer-cli report``."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log, say, scoring_bar, warn

if TYPE_CHECKING:
    from transformer_cli.sweeps.directory import SweepDirectory

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="The page.  [default: RUN/report.html]"),
]
Sentences = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Show the attention of this sentence too; repeatable."),
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
    version: options.Version = False,
) -> None:
    """Report on a trained model as one HTML page: curves, scores, translations, attention.

    The page is one self-contained file: it works offline and opens in any browser. During training
    it shows the best model so far. Of a sweep's directory it shows all runs side by side, and the
    other options have no effect.

    \b
    Example:
      transformer-cli report runs/toy --sentence 'Ein Hund schläft.'
    """
    from transformer_cli.foreign_files import check_replaceable
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.sweeps.directory import SweepDirectory

    if SweepDirectory(run).is_marked():
        say(str(_report_sweep(SweepDirectory(run), output)))
        return
    directory = RunDirectory(run)
    directory.check_not_hub_model()
    settings = directory.load_config()
    page = output or directory.report
    options.check_output(page)
    if output is None:
        check_replaceable(page)
    for each in sentence or []:
        options.check_sentence(each, "--sentence")

    from transformer_cli.report.rendering import plotly_script

    plotly = plotly_script()  # before long work

    from transformer_cli.data.sources import check_has_splits, default_split, load_split
    from transformer_cli.evaluation.metric_choice import metrics_of_runs
    from transformer_cli.files import write_text
    from transformer_cli.inference.loading import ComputeOptions, choose_engine
    from transformer_cli.report.run_page import Subject, make_run_page, pack_sentence
    from transformer_cli.runs.checkpoint import Checkpoint
    from transformer_cli.runs.checkpoint_directory import find_checkpoint
    from transformer_cli.runs.corpus_location import corpus_directory
    from transformer_cli.text.tokenizer import fingerprint

    check_has_splits(
        settings.data,
        run,
        f"score it on yours with: transformer-cli evaluate {run} --src FILE --ref FILE",
    )
    name = split or default_split(settings.data)
    text = load_split(settings.data, name, corpus_directory(directory))
    # One checkpoint throughout, whatever training makes the best one meanwhile.
    weights = find_checkpoint(directory.checkpoints, checkpoint)
    asked = ComputeOptions("auto", device, precision, threads, beam_size)
    asked = replace(asked, engine=choose_engine(directory, asked))
    translator = options.load_translator(directory, str(weights), asked)
    searcher = options.load_searcher(directory, str(weights), asked)
    step = Checkpoint.open(weights, fingerprint(directory.tokenizer)).load_state()["step"]
    subject = Subject(
        run.absolute().name,
        directory,
        translator,
        checkpoint,
        step,
        name,
        text,
        searcher,
        metrics_of_runs(settings, [directory], log),
    )
    with options.prefix_errors("--sentence: "):
        sentences = [pack_sentence(translator, each) for each in sentence or []]
    with scoring_bar(len(text), name) as count_translated:
        html = make_run_page(
            subject, sentences, plotly, line_bar, count_translated, partial(warn, name)
        )
    write_text(page, html, is_named=output is not None)
    say(str(page))


def _report_sweep(directory: "SweepDirectory", output: Path | None) -> Path:
    """Write the page about a sweep; return its path."""
    page = output or directory.report
    options.check_output(page)

    from transformer_cli.cli.sweep_results import render_sweep
    from transformer_cli.files import write_text
    from transformer_cli.sweeps.results import read_results

    write_text(page, render_sweep(directory, read_results(directory)), output is not None)
    return page

"""``transformer-cli compare``."""

import json as json_format
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_run, complete_run_split
from transformer_cli.cli.display import bar, log, pair_bar, say, warn
from transformer_cli.cli.options import argument, option
from transformer_cli.errors import UsageError
from transformer_cli.metrics import Metrics
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.cli import compare_tables
    from transformer_cli.config import differences
    from transformer_cli.data import corpus
    from transformer_cli.evaluation import (
        best_checkpoint,
        compared_runs,
        scores,
        seed_statistics,
        seen_pairs,
    )
    from transformer_cli.inference import loading
    from transformer_cli.model import device as devices
    from transformer_cli.runs import metrics_log

Kind = Literal["runs", "groups"]
Runs = Annotated[
    list[Path],
    argument(
        "RUN",
        "Run directories; or groups of runs that differ in their seeds: a directory of runs, "
        "a pattern in quotes ('runs/a-*'), or a sweep's directory.",
        autocompletion=complete_run,
    ),
]
Splits = Annotated[
    list[str] | None,
    option(
        "[RUN:]NAME",
        "Split of all runs' corpus, or of one run's: RUN:NAME; once for each text.  "
        "[default: the first test of the first run with text]",
        "--split",
        autocompletion=complete_run_split,
    ),
]
Checkpoint = Annotated[
    Literal["best", "last", "average"], option(None, "Checkpoint of each run, which has its own.")
]


def compare(
    runs: Runs,
    splits: Splits = None,
    checkpoint: Checkpoint = "best",
    beam_size: options.BeamSize = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
) -> None:
    """Compare trained models: scores on the same text, costs, and the settings that differ.

    A run's BLEU is tested against the first run's by paired bootstrap resampling: p is how likely
    chance alone makes such a difference. Below 0.05 is mostly taken for a real one, of these two
    trainings; another seed is another training.

    Groups have several seeds: mean and deviation over seeds, and a test of the difference from the
    first group over seeds and sentences together, corrected by Holm's method if there are more. It
    says what to expect of other seeds and other sentences.

    \b
    Example:
      transformer-cli compare runs/small runs/large --split test_2017_flickr
      transformer-cli compare 'runs/small-*' 'runs/large-*'

    \b
    An adapted model on the old text and the new one:
      transformer-cli compare runs/old runs/new --split runs/old:test --split runs/new:test
    """
    with options.prefix_errors("compare: "):
        compared, kind = _open(runs, checkpoint, beam_size)
    opened = [run for group in compared for run in group.runs]
    texts = compared_runs.load_texts(opened, splits or [])
    directories = [run.directory for run in opened]
    metrics = best_checkpoint.metrics_of_runs(opened[0].config, directories, log)
    devices.use_threads(threads)
    torch_device = options.open_device(device)
    torch_precision = devices.choose_precision(precision, torch_device)
    compute = loading.ComputeOptions("auto", device, precision, threads, beam_size)
    reports = [
        {
            "split": name,
            "sentences": len(text),
            "checkpoint": checkpoint,
            **_compare_on(text, compared, kind, compute, metrics),
            "environment": metrics_log.describe_environment(torch_device, torch_precision),
        }
        for name, text in texts
    ]
    if json:
        say(json_format.dumps({"splits": reports} if len(reports) > 1 else reports[0]))
    else:
        say(compare_tables.format_reports(reports, kind))


def _open(
    arguments: Sequence[Path], checkpoint: str, beam_size: int | None
) -> "tuple[list[compared_runs.ComparedGroup], Kind]":
    """Return the groups to compare; where each is a run alone, they are of the kind 'runs'."""
    groups = compared_runs.find_groups(arguments)
    paths = [run.path for group in groups for run in group.runs]
    if len(paths) == 1:
        groups[0].runs[0].load_config()  # or there is no run of that name
        raise UsageError(
            f"{paths[0]} is one run alone; name two or more, "
            f"or use: transformer-cli evaluate {paths[0]}"
        )
    opened = compared_runs.open_runs(paths, checkpoint, beam_size)
    if grouped := compared_runs.group_runs(groups, opened):
        return grouped, "groups"
    return [compared_runs.ComparedGroup(run.name, [run]) for run in opened], "runs"


def _compare_on(
    text: "corpus.ParallelText",
    compared: Sequence["compared_runs.ComparedGroup"],
    kind: Kind,
    compute: "loading.ComputeOptions",
    metrics: Metrics,
) -> dict[str, Any]:
    """Translate a text with each run, and report the scores of the groups, or of the runs.

    Pairs that none of them has seen in training are scored by themselves too.
    """
    seen = [
        seen_pairs.find_seen([run.directory for run in group.runs], text, pair_bar)
        for group in compared
    ]
    translations = [[_translate(run, text, compute) for run in group.runs] for group in compared]

    def score(numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Report the groups' scores of some pairs."""
        references = [text.tgt[number] for number in numbers]
        chosen = [
            [[lines[number] for number in numbers] for lines in of_runs] for of_runs in translations
        ]
        if kind == "groups":
            by_metric = seed_statistics.compare_groups(chosen, references, metrics=metrics)
            return [
                _describe_group(group, number, by_metric) for number, group in enumerate(compared)
            ]
        of_runs = scores.score_systems([lines for (lines,) in chosen], references, metrics)
        return [
            _describe_run(group.runs[0], {name: score._asdict() for name, score in own.items()})
            for group, own in zip(compared, of_runs, strict=True)
        ]

    entries = score(range(len(text)))
    for entry, of_group in zip(entries, seen, strict=True):
        entry["seen"] = of_group.report()
    rest = sorted(set(range(len(text))).intersection(*(of_group.rest for of_group in seen)))
    is_part = 0 < len(rest) < len(text)
    settings = differences.differing_settings([group.runs[0].config for group in compared])
    if kind == "groups":
        settings.pop("seed", None)
    return {
        **({} if kind == "groups" else {"samples": scores.SAMPLES, "seed": scores.SEED}),
        kind: entries,
        "settings": settings,
        "rest": {"sentences": len(rest), kind: score(rest)} if is_part else None,
    }


def _translate(
    run: "compared_runs.ComparedRun", text: "corpus.ParallelText", compute: "loading.ComputeOptions"
) -> list[str]:
    with bar(len(text), run.name, " sentences") as sentences:
        return run.translate(text, compute, sentences.update, partial(warn, run.name))


def _describe_group(
    group: "compared_runs.ComparedGroup",
    number: int,
    by_metric: Mapping[str, "seed_statistics.MetricComparison"],
) -> dict[str, Any]:
    return {
        "name": group.name,
        "beam_size": group.runs[0].config.decoding.beam_size,
        "scores": {
            name: compare_tables.report_score(metric, number) for name, metric in by_metric.items()
        },
        "runs": [
            _describe_run(
                run, {name: metric.groups[number].scores[at] for name, metric in by_metric.items()}
            )
            for at, run in enumerate(group.runs)
        ],
    }


def _describe_run(run: "compared_runs.ComparedRun", scores: Mapping[str, object]) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": run.directory.path.as_posix(),
        "seed": run.config.seed,
        "beam_size": run.config.decoding.beam_size,
        "scores": scores,
        "step": run.step,
        "steps": run.steps,
        "seconds": run.seconds,
        "trained_with": run.trained_with,
    }

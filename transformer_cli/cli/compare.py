"""``transformer-cli compare``."""

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_checkpoint, complete_run, complete_run_split
from transformer_cli.cli.display import bar, log, pair_bar, say, warn
from transformer_cli.errors import UsageError
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.cli import compare_tables
    from transformer_cli.config import differences
    from transformer_cli.evaluation import (
        best_checkpoint,
        compared_runs,
        scores,
        seed_statistics,
        seen_pairs,
    )
    from transformer_cli.inference import loading
    from transformer_cli.model import device as devices
    from transformer_cli.runs import records

if TYPE_CHECKING:
    from transformer_cli.data.corpus import ParallelText
    from transformer_cli.metrics import Metrics, Scores

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN",
        help="Run directories; or groups of runs that differ in their seeds: a directory of runs, "
        "a pattern in quotes ('runs/a-*'), or a sweep's directory.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
Splits = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar="[RUN:]NAME",
        help="Split of all runs' corpus, or of one run's: RUN:NAME; once for each text.  "
        "[default: the first test of the first run with text]",
        show_default=False,
        autocompletion=complete_run_split,
    ),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="best|last|average",
        help="Checkpoint of each run.",
        show_default=True,
        autocompletion=complete_checkpoint,
    ),
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
    version: options.Version = False,
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
    if checkpoint not in ("best", "last", "average"):
        raise UsageError(
            f"--checkpoint {checkpoint}: each run has its own checkpoints; "
            "name best, last or average"
        )
    splits = splits or []
    with options.prefix_errors("compare: "):
        groups = compared_runs.find_groups(runs)
        paths = [run.path for group in groups for run in group.runs]
        if len(paths) == 1:
            groups[0].runs[0].load_config()  # or there is no run of that name
            raise UsageError(
                f"{paths[0]} is one run alone; name two or more, "
                f"or use: transformer-cli evaluate {paths[0]}"
            )
        opened = compared_runs.open_runs(paths, checkpoint, beam_size)
        compared_groups = compared_runs.group_runs(groups, opened)
    texts = compared_runs.load_texts(opened, splits)
    metrics = best_checkpoint.metrics_of_runs(
        opened[0].config, [run.directory for run in opened], log
    )
    devices.use_threads(threads)
    torch_device = options.open_device(device)
    torch_precision = devices.choose_precision(precision, torch_device)
    compute = loading.ComputeOptions("auto", device, precision, threads, beam_size)
    reports = [
        {
            "split": name,
            "sentences": len(text),
            "checkpoint": checkpoint,
            **_compare_on(text, opened, compared_groups, compute, metrics),
            "environment": asdict(records.describe_environment(torch_device, torch_precision)),
        }
        for name, text in texts
    ]
    if json:
        say(json_format.dumps({"splits": reports} if len(reports) > 1 else reports[0]))
    else:
        say(
            compare_tables.format_groups(reports)
            if compared_groups
            else compare_tables.format_runs(reports)
        )


def _compare_on(
    text: "ParallelText",
    runs: Sequence["compared_runs.ComparedRun"],
    groups: Sequence["compared_runs.ComparedGroup"],
    compute: "loading.ComputeOptions",
    metrics: "Metrics",
) -> dict[str, Any]:
    """Translate a text with each run, and report the scores of the groups, or of the runs.

    Pairs that none of them has seen in training are scored by themselves too.
    """
    contestants = {group.name: group.runs for group in groups} or {run.name: [run] for run in runs}
    seen = {
        name: seen_pairs.find_seen([run.directory for run in each], text, pair_bar)
        for name, each in contestants.items()
    }
    translations = []
    for run in runs:
        with bar(len(text), run.name, " sentences") as sentences:
            progress = (sentences.update, partial(warn, run.name))
            translations.append(run.translate(text, compute, *progress))

    def score(numbers: Sequence[int]) -> dict[str, Any]:
        """Report the scores of some pairs."""
        references = [text.tgt[number] for number in numbers]
        chosen = [[lines[number] for number in numbers] for lines in translations]
        if not groups:
            return _report(runs, scores.score_systems(chosen, references, metrics))
        by_path = {run.directory.path: lines for run, lines in zip(runs, chosen, strict=True)}
        by_group = [[by_path[run.directory.path] for run in group.runs] for group in groups]
        compared = seed_statistics.compare_groups(by_group, references, metrics=metrics)
        return _report_groups(groups, compared)

    report = score(range(len(text)))
    rest = sorted(set(range(len(text))).intersection(*(each.rest for each in seen.values())))
    kind = "groups" if groups else "runs"
    for entry in report[kind]:
        entry["seen"] = seen[entry["name"]].report()
    is_part = 0 < len(rest) < len(text)
    report["rest"] = {"sentences": len(rest), kind: score(rest)[kind]} if is_part else None
    return report


def _report(
    runs: Sequence["compared_runs.ComparedRun"], scores_of_runs: Sequence["Scores"]
) -> dict[str, Any]:
    return {
        "samples": scores.SAMPLES,
        "seed": scores.SEED,
        "runs": [
            {
                **_describe(run),
                "beam_size": run.config.decoding.beam_size,
                "scores": {name: score._asdict() for name, score in own.items()},
            }
            for run, own in zip(runs, scores_of_runs, strict=True)
        ],
        "settings": differences.differing_settings([run.config for run in runs]),
    }


def _report_groups(
    groups: Sequence["compared_runs.ComparedGroup"],
    compared: Mapping[str, "seed_statistics.MetricComparison"],
) -> dict[str, Any]:
    return {
        "groups": [
            {
                "name": group.name,
                "beam_size": group.runs[0].config.decoding.beam_size,
                "scores": {
                    name: compare_tables.report_score(metric, number)
                    for name, metric in compared.items()
                },
                "runs": [
                    {
                        **_describe(run),
                        "seed": run.config.seed,
                        "scores": {
                            name: metric.groups[number].scores[place]
                            for name, metric in compared.items()
                        },
                    }
                    for place, run in enumerate(group.runs)
                ],
            }
            for number, group in enumerate(groups)
        ],
        "settings": compared_runs.settings_of_groups(groups),
    }


def _describe(run: "compared_runs.ComparedRun") -> dict[str, Any]:
    return {
        "name": run.name,
        "path": run.directory.path.as_posix(),
        "step": run.step,
        "steps": run.steps,
        "seconds": run.seconds,
        "trained_with": run.trained_with,
    }

"""``transformer-cli compare``."""

import json as json_format
from collections.abc import Sequence
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
    from transformer_cli.evaluation import (
        compared_texts,
        comparison,
        group_comparison,
        metrics as all_metrics,
        seen_pairs,
        significance,
    )
    from transformer_cli.inference import loading
    from transformer_cli.model import device as devices
    from transformer_cli.runs import records

if TYPE_CHECKING:
    from transformer_cli.data.corpus import ParallelText

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
        groups = group_comparison.find_groups(runs)
        paths = [run.path for group in groups for run in group.runs]
        if len(paths) == 1:
            groups[0].runs[0].load_config()  # or there is no run of that name
            raise UsageError(
                f"{paths[0]} is one run alone; name two or more, "
                f"or use: transformer-cli evaluate {paths[0]}"
            )
        compared_runs = comparison.open_runs(paths, checkpoint, beam_size)
        compared_groups = group_comparison.group_runs(groups, compared_runs)
    texts = compared_texts.load_texts(compared_runs, splits)
    metrics = all_metrics.metrics_of_runs(
        compared_runs[0].config, [run.directory for run in compared_runs], log
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
            **_compare_on(text, compared_runs, compared_groups, compute, metrics),
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
    runs: Sequence["comparison.ComparedRun"],
    groups: Sequence["group_comparison.ComparedGroup"],
    compute: "loading.ComputeOptions",
    metrics: "all_metrics.Metrics",
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
            translations.append(comparison.translate(run, text, compute, *progress))

    def score(numbers: Sequence[int]) -> dict[str, Any]:
        """Report the scores of some pairs."""
        references = [text.tgt[number] for number in numbers]
        chosen = [[lines[number] for number in numbers] for lines in translations]
        if not groups:
            return _report(runs, comparison.compare(runs, chosen, references, metrics))
        by_path = {run.directory.path: each for run, each in zip(runs, chosen, strict=True)}
        return _report_groups(
            groups, group_comparison.compare(groups, by_path, references, metrics)
        )

    report = score(range(len(text)))
    rest = sorted(set(range(len(text))).intersection(*(each.rest for each in seen.values())))
    kind = "groups" if groups else "runs"
    for entry in report[kind]:
        entry["seen"] = seen[entry["name"]].report()
    is_part = 0 < len(rest) < len(text)
    report["rest"] = {"sentences": len(rest), kind: score(rest)[kind]} if is_part else None
    return report


def _report(
    runs: Sequence["comparison.ComparedRun"], result: "comparison.Comparison"
) -> dict[str, Any]:
    lowercased_systems = result.bleu_lc.systems if result.bleu_lc else [None] * len(runs)
    return {
        "samples": significance.SAMPLES,
        "seed": significance.SEED,
        "runs": [
            {
                "name": run.name,
                "path": run.directory.path.as_posix(),
                "beam_size": run.config.decoding.beam_size,
                "bleu": scores.bleu,
                "bleu_half_width": cased.half_width,
                "bleu_p": cased.p_value,
                "bleu_lc": scores.bleu_lc,
                "bleu_lc_half_width": lowercased and lowercased.half_width,
                "bleu_lc_p": lowercased and lowercased.p_value,
                "chrf": scores.chrf,
                "step": run.step,
                "steps": run.steps,
                "seconds": run.seconds,
                "trained_with": run.trained_with,
            }
            for run, scores, cased, lowercased in zip(
                runs, result.scores, result.bleu.systems, lowercased_systems, strict=True
            )
        ],
        "settings": result.settings,
        "signature": result.bleu.signature,
        "signature_lc": result.bleu_lc and result.bleu_lc.signature,
        "signature_chrf": result.scores[0].signature_chrf,
    }


def _report_groups(
    groups: Sequence["group_comparison.ComparedGroup"], result: "group_comparison.GroupComparison"
) -> dict[str, Any]:
    report_score = compare_tables.report_score
    return {
        "groups": [
            {
                "name": group.name,
                "beam_size": group.runs[0].config.decoding.beam_size,
                "bleu": report_score(result.bleu, number),
                "bleu_lc": result.bleu_lc and report_score(result.bleu_lc, number),
                "chrf": report_score(result.chrf, number),
                "runs": [
                    {
                        "name": run.name,
                        "path": run.directory.path.as_posix(),
                        "seed": run.config.seed,
                        "bleu": result.bleu.groups[number].scores[place],
                        "bleu_lc": result.bleu_lc and result.bleu_lc.groups[number].scores[place],
                        "chrf": result.chrf.groups[number].scores[place],
                        "step": run.step,
                        "steps": run.steps,
                        "seconds": run.seconds,
                        "trained_with": run.trained_with,
                    }
                    for place, run in enumerate(group.runs)
                ],
            }
            for number, group in enumerate(groups)
        ],
        "settings": result.settings,
        "signature": result.bleu.signature,
        "signature_lc": result.bleu_lc and result.bleu_lc.signature,
        "signature_chrf": result.chrf.signature,
    }

"""``transformer-cli compare``."""

import json as json_format
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_checkpoint, complete_run, complete_split
from transformer_cli.cli.display import bar, warn
from transformer_cli.errors import UsageError

if TYPE_CHECKING:
    from transformer_cli.evaluation.comparison import ComparedRun, Comparison

WIDTH = 100
"""Columns that tables keep within, unless names alone are wider."""
_NARROWEST = 12

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN",
        help="Run directories of two or more trainings.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Split of all runs' corpus.  [default: the first run's first test]",
        autocompletion=complete_split,
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
    split: Split = None,
    checkpoint: Checkpoint = "best",
    beam_size: options.BeamSize = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Compare trained models: scores on one text, costs, and the settings that differ.

    A run's BLEU is tested against the first run's by paired bootstrap resampling: p is how likely
    chance alone makes such a difference. Below 0.05 is mostly taken for a real one, of these two
    trainings; another seed is another training.

    \b
    Example:
      transformer-cli compare runs/small runs/large --split test_2017_flickr
    """
    from transformer_cli.evaluation import comparison
    from transformer_cli.model.device import choose_precision, use_threads
    from transformer_cli.runs.environment import describe_environment

    if len(runs) == 1:
        raise UsageError(
            f"compare: {runs[0]} is one run alone; name two or more, "
            f"or use: transformer-cli evaluate {runs[0]}"
        )
    if checkpoint not in ("best", "last", "average"):
        raise UsageError(
            f"--checkpoint {checkpoint}: each run has its own checkpoints; "
            "name best, last or average"
        )
    options.put_back(*runs)
    with options.name_option("compare: "):
        compared_runs = comparison.open_runs(runs, checkpoint, beam_size)
    name, text = comparison.load_common_text(compared_runs, split)
    use_threads(threads)
    torch_device = options.open_device(device)
    torch_precision = choose_precision(precision, torch_device)
    translations = []
    for each in compared_runs:
        with bar(len(text), each.name, " sentences") as sentences:
            progress = (sentences.update, partial(warn, each.name))
            translations.append(
                comparison.translate(each, text.src, torch_device, torch_precision, *progress)
            )
    result = comparison.compare(compared_runs, translations, text.tgt)
    report = {
        "split": name,
        "sentences": len(text),
        "checkpoint": checkpoint,
        **_report(compared_runs, result),
        "environment": asdict(describe_environment(torch_device, torch_precision)),
    }
    typer.echo(json_format.dumps(report) if json else _tables(report))


def _report(runs: Sequence["ComparedRun"], result: "Comparison") -> dict[str, Any]:
    from transformer_cli.evaluation.significance import SAMPLES, SEED

    return {
        "samples": SAMPLES,
        "seed": SEED,
        "runs": [
            {
                "name": run.name,
                "path": run.directory.path.as_posix(),
                "beam_size": run.config.decoding.beam_size,
                "bleu": scores.bleu,
                "bleu_half_width": cased.half_width,
                "bleu_p": cased.p_value,
                "bleu_lc": scores.bleu_lc,
                "bleu_lc_half_width": lowercased.half_width,
                "bleu_lc_p": lowercased.p_value,
                "chrf": scores.chrf,
                "step": run.step,
                "steps": run.steps,
                "seconds": run.seconds,
                "trained_with": run.trained_with,
            }
            for run, scores, cased, lowercased in zip(
                runs, result.scores, result.bleu.systems, result.bleu_lc.systems, strict=True
            )
        ],
        "settings": result.settings,
        "signature": result.bleu.signature,
        "signature_lc": result.bleu_lc.signature,
        "signature_chrf": result.scores[0].signature_chrf,
    }


def _tables(report: dict[str, Any]) -> str:
    names = [run["name"] for run in report["runs"]]
    return "\n".join(
        [
            f"{report['split']}: {report['sentences']:,} sentences, {report['checkpoint']} weights",
            "",
            *_scores(report["runs"]),
            "",
            "±: half of the 95 % interval. "
            f"p: how likely chance makes such a difference from {names[0]}.",
            "step: of the weights that were scored. steps, seconds: of the whole training.",
            "",
            *(_format_differences("setting", names, report["settings"]) or ["no setting differs"]),
            *_trained_with(report["runs"]),
            "",
            f"BLEU             {report['signature']}",
            f"BLEU lowercased  {report['signature_lc']}",
            f"chrF             {report['signature_chrf']}",
        ]
    )


def _scores(runs: Sequence[dict[str, Any]]) -> list[str]:
    heads = ["run", "BLEU", "p", "BLEU lowercased", "p", "chrF", "step", "steps", "seconds"]
    rows = [
        [
            run["name"],
            f"{run['bleu']:.2f} ±{run['bleu_half_width']:5.2f}",
            _p(run["bleu_p"]),
            f"{run['bleu_lc']:.2f} ±{run['bleu_lc_half_width']:5.2f}",
            _p(run["bleu_lc_p"]),
            f"{run['chrf']:.2f}",
            f"{run['step']:,}",
            f"{run['steps']:,}",
            f"{run['seconds']:,.0f}",
        ]
        for run in runs
    ]
    return _align_columns([heads, *rows])


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _trained_with(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Format a table of precision, device, versions and so on, where the trainings' differ."""
    found = [run["trained_with"] or {} for run in runs]
    values = {key: [each.get(key) for each in found] for each in found for key in each}
    differing = {key: each for key, each in values.items() if any(v != each[0] for v in each)}
    lines = _format_differences("trained with", [run["name"] for run in runs], differing)
    return ["", *lines] if lines else []


def _format_differences(
    what: str, names: Sequence[str], values: dict[str, list[object]]
) -> list[str]:
    """Format a table of values by their keys, one a run; nothing if there are none."""
    if not values:
        return []
    for_values = (WIDTH - max(map(len, [what, *values]))) // len(names) - 2
    most = max(for_values, _NARROWEST)
    rows = [[key, *(_end(_as_yaml(value), most) for value in each)] for key, each in values.items()]
    return _align_columns([[what, *names], *rows])


def _as_yaml(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json_format.dumps(value)


def _end(text: str, most: int) -> str:
    # What is long is a path, and those of two runs part at the end.
    return text if len(text) <= most else f"...{text[3 - most :]}"


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the first column aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]

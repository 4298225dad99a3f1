"""Tables of ``compare``: of runs, and of groups of runs."""

import json as json_format
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from transformer_cli.cli.display import align_columns
from transformer_cli.evaluation.seed_statistics import MAX_SEEDS, MetricComparison
from transformer_cli.evaluation.seen_pairs import describe_seen
from transformer_cli.metrics import METRICS

WIDTH = 100
"""Columns that tables keep within, unless names alone are wider."""
_NARROWEST = 12


def format_runs(reports: Sequence[dict[str, Any]]) -> str:
    """Format the reports of runs, one for each text."""
    first = reports[0]
    names = [run["name"] for run in first["runs"]]
    tables = [
        [
            *(_title(report), "", *_scores(report["runs"]), ""),
            *_seen(report, report["runs"], lambda rest: [*_scores(rest["runs"]), ""]),
        ]
        for report in reports
    ]
    return "\n".join(
        [
            *chain.from_iterable(tables),
            "±: half of the 95 % interval. "
            f"p: how likely chance makes such a difference from {names[0]}.",
            "step: of the weights that were scored. steps, seconds: of the whole training.",
            "",
            *_end_of_report(first, names, first["runs"]),
        ]
    )


def format_groups(reports: Sequence[dict[str, Any]]) -> str:
    """Format the reports of groups of runs, one for each text."""
    groups = reports[0]["groups"]
    names = [group["name"] for group in groups]
    counts = [len(group["runs"]) for group in groups]
    several = len(groups) > 2
    lines: list[str] = []

    def tables(report: dict[str, Any]) -> Iterator[str]:
        for key in report["groups"][0]["scores"]:
            found = [group["scores"][key] for group in report["groups"]]
            yield from (*_group_scores(METRICS[key].label, names, counts, found), "")

    for report in reports:
        lines += [_title(report), "", *tables(report), *_seen(report, report["groups"], tables)]
    lines += [
        "mean: over seeds, ± their standard deviation. interval: of the mean, by Student's t."
    ]
    if len(groups) > 1:
        lines += [
            f"difference: from {names[0]}, ± half of its 95 % interval. p: how likely chance makes "
            "such a one,",
            "by a test over seeds and sentences together (Clark 1973)."
            + (" Holm: p, corrected for all rows." if several else ""),
            "needed: seeds of each group that show a true difference of this size 4 times in 5.",
        ]
    trained = [
        {"name": group["name"], "trained_with": _merge_trainings(group["runs"])} for group in groups
    ]
    return "\n".join([*lines, "", *_end_of_report(reports[0], names, trained)])


def _merge_trainings(runs: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what a group's runs were trained with; several values where they differ."""
    found = [run["trained_with"] or {} for run in runs]
    keys = dict.fromkeys(key for each in found for key in each)
    return {
        key: ", ".join(dict.fromkeys(_as_yaml(each.get(key)) for each in found)) for key in keys
    }


def _title(report: dict[str, Any]) -> str:
    return f"{report['split']}: {report['sentences']:,} sentences, {report['checkpoint']} weights"


def _seen(
    report: dict[str, Any],
    compared: Sequence[dict[str, Any]],
    tables: Callable[[dict[str, Any]], Iterable[str]],
) -> list[str]:
    """Say which pairs were seen in training, and format the scores of the rest."""
    lines = [
        line
        for each in compared
        for line in describe_seen(each["seen"], report["sentences"], each["name"])
    ]
    rest = report["rest"]
    if rest is not None:
        lines += [f"the other {rest['sentences']:,}:", "", *tables(rest)]
    elif lines:
        lines.append("")
    return lines


def _end_of_report(
    report: dict[str, Any], names: Sequence[str], trained: Sequence[dict[str, Any]]
) -> list[str]:
    """Format differing settings and trainings, and the signatures."""
    return [
        *(_format_differences("setting", names, report["settings"]) or ["no setting differs"]),
        *_trained_with(trained),
        "",
        *(
            f"{METRICS[key].label:<15}  {score['signature']}"
            for key, score in (report.get("runs") or report["groups"])[0]["scores"].items()
        ),
    ]


def format_group_scores(head: str, names: Sequence[str], metric: MetricComparison) -> list[str]:
    """Return the lines of a table of groups by one metric."""
    counts = [len(group.scores) for group in metric.groups]
    found = [report_score(metric, number) for number in range(len(names))]
    return _group_scores(head, names, counts, found)


def report_score(metric: MetricComparison, number: int) -> dict[str, Any]:
    """Return what there is to say of one group by one metric."""
    score, difference = metric.groups[number], metric.differences[number]
    return {
        "signature": metric.signature,
        "mean": score.mean,
        "deviation": score.deviation,
        "half_width": score.half_width,
        "interval": score.interval,
        "difference": difference.difference if difference else None,
        "difference_half_width": difference.half_width if difference else None,
        "p": difference.p_value if difference else None,
        "p_holm": difference.p_holm if difference else None,
        "needed_seeds": difference.needed_seeds if difference else None,
    }


def _group_scores(
    head: str, names: Sequence[str], counts: Sequence[int], found: Sequence[dict[str, Any]]
) -> list[str]:
    heads = [head, "seeds", "mean", "95 % interval", "difference", "p", "Holm", "needed"]
    rows = [
        [name, str(count), *_group_cells(each)]
        for name, count, each in zip(names, counts, found, strict=True)
    ]
    table = [heads, *rows]
    if len(names) <= 2:
        table = [row[:6] + row[7:] for row in table]
    return align_columns(table if len(names) > 1 else [row[:4] for row in table])


def _group_cells(found: dict[str, Any]) -> list[str]:
    mean, interval = found["mean"], found["interval"]
    difference, needed = found["difference"], found["needed_seeds"]
    is_tested = found["p"] is not None and difference != 0
    return [
        f"{mean:.2f}{_plus_minus(found['deviation'])}",
        "-" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}",
        "-"
        if difference is None
        else f"{difference:+.2f}{_plus_minus(found['difference_half_width'])}",
        _p(found["p"]),
        _p(found["p_holm"]),
        f"{needed:,}" if needed else f">{MAX_SEEDS:,}" if is_tested else "-",
    ]


def _plus_minus(value: float | None) -> str:
    return "" if value is None else f" ±{value:5.2f}"


def _scores(runs: Sequence[dict[str, Any]]) -> list[str]:
    heads = ["run"]
    for key in runs[0]["scores"]:
        heads += [METRICS[key].label, "p"] if METRICS[key].is_first else [METRICS[key].label]
    heads += ["step", "steps", "seconds"]
    rows = [
        [
            run["name"],
            *chain.from_iterable(_score_cells(key, score) for key, score in run["scores"].items()),
            f"{run['step']:,}",
            f"{run['steps']:,}",
            f"{run['seconds']:,.0f}",
        ]
        for run in runs
    ]
    return align_columns([heads, *rows])


def _score_cells(key: str, score: dict[str, Any]) -> list[str]:
    if not METRICS[key].is_first:
        return [f"{score['value']:.2f}"]
    return [f"{score['value']:.2f} ±{score['half_width']:5.2f}", _p(score["p_value"])]


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


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
    return align_columns([[what, *names], *rows])


def _as_yaml(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json_format.dumps(value)


def _end(text: str, most: int) -> str:
    # What is long is a path, and those of two runs part at the end.
    return text if len(text) <= most else f"...{text[3 - most :]}"

"""Tables of ``compare``: of runs, and of groups of runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from transformer_cli.cli.display import align_columns, plus_minus
from transformer_cli.config.differences import as_yaml
from transformer_cli.evaluation.seed_statistics import MAX_SEEDS, MetricComparison
from transformer_cli.evaluation.seen_pairs import describe_seen
from transformer_cli.metrics import METRICS

Entry = Mapping[str, Any]  # what JSON has of a run, or of a group of runs
WIDTH = 100  # columns that tables keep within, unless names alone are wider
_NARROWEST = 12


def format_reports(reports: Sequence[Mapping[str, Any]], kind: str) -> str:
    """Format the reports of ``kind`` 'runs' or 'groups', one for each text."""
    tables = _group_tables if kind == "groups" else _run_table
    lines: list[str] = []
    for report in reports:
        sentences, rest = report["sentences"], report["rest"]
        title = f"{report['split']}: {sentences:,} sentences, {report['checkpoint']} weights"
        lines += [title, "", *tables(report[kind])]
        seen = [describe_seen(entry["seen"], sentences, entry["name"]) for entry in report[kind]]
        lines += chain.from_iterable(seen)
        if rest is not None:
            lines += [f"the other {rest['sentences']:,}:", "", *tables(rest[kind])]
        elif any(seen):
            lines.append("")
    entries, settings = reports[0][kind], reports[0]["settings"]
    names = [entry["name"] for entry in entries]
    lines += group_notes(names[0], len(names)) if kind == "groups" else _run_notes(names[0])
    lines += ["", *(_format_differences("setting", names, settings) or ["no setting differs"])]
    trainings = [_merge_trainings(entry.get("runs", [entry])) for entry in entries]
    keys = dict.fromkeys(chain.from_iterable(trainings))
    values = {key: [training.get(key) for training in trainings] for key in keys}
    differing = {key: row for key, row in values.items() if len(set(row)) > 1}
    if differing:
        lines += ["", *_format_differences("trained with", names, differing)]
    signatures = {METRICS[key].label: score for key, score in entries[0]["scores"].items()}
    lines += ["", *(f"{label:<15}  {score['signature']}" for label, score in signatures.items())]
    return "\n".join(lines)


def _merge_trainings(runs: Sequence[Entry]) -> dict[str, str]:
    """Return device, precision, versions and so on of a group's runs; several where they differ."""
    trainings = [run["trained_with"] or {} for run in runs]
    keys = dict.fromkeys(chain.from_iterable(trainings))
    return {
        key: ", ".join(dict.fromkeys(_as_yaml(training.get(key)) for training in trainings))
        for key in keys
    }


def _format_differences(
    what: str, names: Sequence[str], values: Mapping[str, Sequence[object]]
) -> list[str]:
    """Format a table of values by their keys, one a run; nothing if there are none."""
    if not values:
        return []
    width = (WIDTH - max(map(len, [what, *values]))) // len(names) - 2
    longest = max(width, _NARROWEST)

    def shorten(text: str) -> str:
        # What is long is a path, and those of two runs part at the end.
        return text if len(text) <= longest else f"...{text[3 - longest :]}"

    rows = [[key, *(shorten(_as_yaml(value)) for value in row)] for key, row in values.items()]
    return align_columns([[what, *names], *rows])


def _as_yaml(value: object) -> str:
    return "-" if value is None else as_yaml(value)


# --- runs -----------------------------------------------------------------------------------------


def _run_table(runs: Sequence[Entry]) -> Iterator[str]:
    heads = ["run"]
    rows = [[run["name"]] for run in runs]
    for key, metric in METRICS.items():
        if key not in runs[0]["scores"]:
            continue
        heads += [metric.label, "p"] if metric.is_first else [metric.label]
        for row, run in zip(rows, runs, strict=True):
            score = run["scores"][key]
            value = f"{score['value']:.2f}"
            tested = [f"{value}{plus_minus(score['half_width'])}", _p(score["p_value"])]
            row += tested if metric.is_first else [value]
    heads += ["step", "steps", "seconds"]
    for row, run in zip(rows, runs, strict=True):
        row += [f"{run['step']:,}", f"{run['steps']:,}", f"{run['seconds']:,.0f}"]
    yield from (*align_columns([heads, *rows]), "")


def _run_notes(reference: str) -> list[str]:
    return [
        "±: half of the 95 % interval. "
        f"p: how likely chance makes such a difference from {reference}.",
        "step: of the weights that were scored. steps, seconds: of the whole training.",
    ]


# --- groups ---------------------------------------------------------------------------------------


def _group_tables(groups: Sequence[Entry]) -> Iterator[str]:
    names = [group["name"] for group in groups]
    for key in groups[0]["scores"]:
        scores = [group["scores"][key] for group in groups]
        yield from (*_group_table(METRICS[key].label, names, scores), "")


def format_group_scores(head: str, names: Sequence[str], metric: MetricComparison) -> list[str]:
    """Return the lines of a table of groups by one metric."""
    return _group_table(head, names, [report_score(metric, n) for n in range(len(names))])


def report_score(metric: MetricComparison, number: int) -> dict[str, Any]:
    """Return what there is to say of one group by one metric."""
    score = metric.groups[number]
    return {"signature": metric.signature, **asdict(score), "interval": score.interval}


def _group_table(head: str, names: Sequence[str], scores: Sequence[Entry]) -> list[str]:
    table = [[head, "seeds", "mean", "95 % interval", "difference", "p", "Holm", "needed"]]
    for name, score in zip(names, scores, strict=True):
        mean = f"{score['mean']:.2f}{plus_minus(score['deviation'])}"
        interval, difference = score["interval"], score["difference"]
        row = [name, str(len(score["scores"])), mean, "-", "-", "-", "-", "-"]
        if interval is not None:
            row[3] = f"{interval[0]:.2f} to {interval[1]:.2f}"
        if difference is not None:
            points, p_value = difference["difference"], difference["p_value"]
            needed = difference["needed_seeds"]
            lacking = "-" if p_value is None or points == 0 else f">{MAX_SEEDS:,}"
            row[4:] = [
                f"{points:+.2f}{plus_minus(difference['half_width'])}",
                _p(p_value),
                _p(difference["p_holm"]),
                f"{needed:,}" if needed else lacking,
            ]
        table.append(row)
    if len(names) == 1:
        table = [row[:4] for row in table]
    elif len(names) == 2:
        table = [row[:6] + row[7:] for row in table]
    return align_columns(table)


def group_notes(reference: str, groups: int) -> list[str]:
    """Return lines about the columns of a table of so many groups."""
    mean = "mean: over seeds, ± their standard deviation. interval: of the mean, by Student's t."
    if groups == 1:
        return [mean]
    return [
        mean,
        f"difference: from {reference}, ± half of its 95 % interval. p: how likely chance makes "
        "such a one,",
        "by a test over seeds and sentences together (Clark 1973)."
        + (" Holm: p, corrected for all rows." if groups > 2 else ""),
        "needed: seeds of each group that show a true difference of this size 4 times in 5.",
    ]


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.0005 else f"{value:.3f}"

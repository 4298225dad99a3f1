"""The command ``transformer-cli compare``, and its tables of runs and of groups of runs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

from transformer_cli.base.messages import bar, log, warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, option
from transformer_cli.cli.display import align_columns, plus_minus, say
from transformer_cli.config.choices import METRICS

with lazy_imports():
    from transformer_cli.config import differences, setting_tree
    from transformer_cli.data import corpus
    from transformer_cli.evaluation import best_checkpoint, scores
    from transformer_cli.extensions.checks import seen_pairs
    from transformer_cli.extensions.experiments import compared_runs, seed_statistics
    from transformer_cli.inference import loading, translator as translators
    from transformer_cli.model import device as devices
    from transformer_cli.runs import metrics_log

if TYPE_CHECKING:
    from transformer_cli.config.data_schema import DataConfig
    from transformer_cli.evaluation.scores import Metrics

_WIDTH = 100  # columns that tables fit into, unless the names alone are wider
_NARROWEST = 12
Entry = Mapping[str, Any]  # a run or a group of runs, as in the JSON output


@dataclass(frozen=True)
class CompareOptions(CommandOptions):
    """The options of ``compare``: runs, texts, checkpoint, beam size and hardware."""

    runs: Annotated[
        list[Path],
        argument(
            "RUN",
            "Run directories. To compare groups of runs with different seeds, give directories of "
            "runs or quoted patterns ('runs/a-*').",
        ),
    ]
    splits: Annotated[
        list[str] | None,
        option(
            "[RUN:]NAME",
            "Split of the runs' corpus, or RUN:NAME for a split of one run's corpus; repeatable.  "
            "[default: the first test split, or val]",
            "--split",
        ),
    ] = None
    checkpoint: Annotated[
        Literal["best", "last", "average"], option(None, "Checkpoint of each run.")
    ] = "best"
    beam_size: options.BeamSize = None
    json: options.Json = False
    device: options.Device = "auto"
    precision: options.Precision = "auto"
    threads: options.Threads = None


@runtime_checkable
class Variations(Protocol):
    """Options of an extension that add variations of each text to ``compare``."""

    def variations(
        self, text: "corpus.ParallelText", data: "DataConfig"
    ) -> "Iterator[tuple[str, corpus.ParallelText]]":
        """Yield the name and the content of each text to score next to ``text``."""


@declared_by(CompareOptions)
def compare(given: CompareOptions) -> None:
    """Compare trained models: scores on the same text, costs, and the settings that differ.

    Each run's BLEU is tested against the first run's by paired bootstrap resampling: p is the
    probability of a difference this large if both models are equally good. The result applies
    only to these particular runs, because results vary by seed.

    For groups of runs with several seeds, you get the mean and standard deviation over the
    seeds, and a test over both seeds and sentences, with Holm's correction for more than two
    groups.

    \b
    Example:
      transformer-cli compare runs/small runs/large --split test_2017_flickr
      transformer-cli compare 'runs/small-*' 'runs/large-*'

    \b
    Compare an adapted model with the original on the old and the new text:
      transformer-cli compare runs/old runs/new --split runs/old:test --split runs/new:test
    """
    given.check_extras()
    with options.prefix_errors("compare: "):
        compared, kind = compared_runs.open_groups(given.runs, given.checkpoint, given.beam_size)
    opened = [run for group in compared for run in group.runs]
    texts = list(_load_texts(opened, given))
    directories = [run.directory for run in opened]
    metrics = best_checkpoint.metrics_of_runs(opened[0].config, directories, log)
    devices.use_threads(given.threads)
    device = devices.choose_device(given.device)
    precision = devices.choose_precision(given.precision, device)
    search = {"beam_size": given.beam_size}
    compute = loading.ComputeOptions("auto", given.device, given.precision, given.threads, search)
    translations = [[_translate(run, texts, compute) for run in group.runs] for group in compared]
    reports: list[dict[str, Any]] = []
    for number, each in enumerate(texts):
        if not each.variation:
            seen = [
                seen_pairs.find_seen([run.directory for run in group.runs], each.content)
                for group in compared
            ]
        of_text = [[of_run[number] for of_run in of_group] for of_group in translations]
        reports.append(
            {
                "split": each.split,
                **({"variation": each.variation} if each.variation else {}),
                "sentences": len(each.content),
                "checkpoint": given.checkpoint,
                **_compare_on(each.content, of_text, seen, compared, kind, metrics),
                "environment": metrics_log.describe_environment(device, precision),
            }
        )
    if given.json:
        say(json.dumps({"splits": reports} if len(reports) > 1 else reports[0]))
    else:
        say(format_reports(reports, kind))


class _Text(NamedTuple):
    """A text to compare on: a split, or a variation of it."""

    split: str
    variation: str  # its name; empty for the split itself
    content: "corpus.ParallelText"


def _load_texts(
    runs: Sequence["compared_runs.ComparedRun"], given: CompareOptions
) -> Iterator[_Text]:
    """Yield the texts, each followed by the variations that options of extensions add."""
    extras = [each for each in given.extras if isinstance(each, Variations)]
    for split, text in compared_runs.load_texts(runs, given.splits or []):
        yield _Text(split, "", text)
        for extra in extras:
            for name, varied in extra.variations(text, runs[0].config.data):
                yield _Text(split, name, varied)


def _compare_on(
    text: "corpus.ParallelText",
    translations: Sequence[Sequence[Sequence[str]]],
    seen: Sequence["seen_pairs.SeenPairs"],
    compared: Sequence["compared_runs.ComparedGroup"],
    kind: "compared_runs.Kind",
    metrics: "Metrics",
) -> dict[str, Any]:
    """Return a dict with the scores of the groups' or runs' ``translations`` of a text.

    If a run's training text has some of the pairs, the other pairs are also scored on their own.
    """

    def score(numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the scores of each group or run on the pairs with these indices."""
        references = [text.tgt[number] for number in numbers]
        chosen = [
            [[lines[number] for number in numbers] for lines in of_runs] for of_runs in translations
        ]
        if kind == "groups":
            by_metric = seed_statistics.compare_groups(chosen, references, metrics=metrics)
            return [
                _describe_group(group, number, by_metric) for number, group in enumerate(compared)
            ]
        of_runs = seed_statistics.score_systems([lines for (lines,) in chosen], references, metrics)
        return [
            _describe_run(group.runs[0], {name: score._asdict() for name, score in own.items()})
            for group, own in zip(compared, of_runs, strict=True)
        ]

    entries = score(range(len(text)))
    for entry, of_group in zip(entries, seen, strict=True):
        entry["seen"] = of_group.report()
    rest = sorted(set(range(len(text))).intersection(*(of_group.rest for of_group in seen)))
    is_part = 0 < len(rest) < len(text)
    differing = differences.iter_differing([group.runs[0].config for group in compared])
    settings = {setting_tree.join_keys(keys): values for keys, values in differing}
    if kind == "groups":
        settings.pop("seed", None)
    return {
        **({} if kind == "groups" else {"samples": scores.SAMPLES, "seed": scores.SEED}),
        kind: entries,
        "settings": settings,
        "rest": {"sentences": len(rest), kind: score(rest)} if is_part else None,
    }


def _translate(
    run: "compared_runs.ComparedRun", texts: Sequence[_Text], compute: "loading.ComputeOptions"
) -> list[list[str]]:
    translator = loading.load_translator(run.directory, str(run.checkpoint), compute)
    translator = translator.with_search(**compute.search)
    with bar(sum(len(each.content) for each in texts), run.name, " sentences") as sentences:
        watcher = translators.Watcher(sentences.update, on_long_line=partial(warn, run.name))
        return [translator.translate(each.content.src, watcher) for each in texts]


def _describe_group(
    group: "compared_runs.ComparedGroup",
    number: int,
    by_metric: Mapping[str, "seed_statistics.MetricComparison"],
) -> dict[str, Any]:
    return {
        "name": group.name,
        "beam_size": group.runs[0].config.decoding.beam_size,
        "scores": {name: report_score(metric, number) for name, metric in by_metric.items()},
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
    }


# --- tables ---------------------------------------------------------------------------------------


def format_reports(reports: Sequence[Mapping[str, Any]], kind: str) -> str:
    """Format reports as tables; ``reports`` has one per text; ``kind`` is 'runs' or 'groups'."""
    tables = _group_tables if kind == "groups" else _run_table
    lines: list[str] = []
    for report in reports:
        sentences, rest = report["sentences"], report["rest"]
        name = ", ".join(filter(None, (report["split"], report.get("variation"))))
        title = f"{name}: {sentences:,} sentences, {report['checkpoint']} weights"
        lines += [title, "", *tables(report[kind])]
        seen = [
            seen_pairs.describe_seen(entry["seen"], sentences, entry["name"])
            for entry in report[kind]
            if "variation" not in report
        ]
        lines += chain.from_iterable(seen)
        if rest is not None:
            lines += [f"the other {rest['sentences']:,}:", "", *tables(rest[kind])]
        elif any(seen):
            lines.append("")
    entries, settings = reports[0][kind], reports[0]["settings"]
    names = [entry["name"] for entry in entries]
    value = "mean" if kind == "groups" else "value"
    scored = entries[0]["scores"]
    found = {key: [each["scores"][key][value] for each in entries] for key in scored}
    if kind == "groups":
        lines += group_notes(names[0], len(names), found)
    else:
        lines += _run_notes(names[0], found)
    lines += ["", *(_format_differences(names, settings) or ["all settings are equal"])]
    lines.append("")
    lines += (f"{METRICS[key].label:<15}  {each['signature']}" for key, each in scored.items())
    return "\n".join(lines)


def _format_differences(names: Sequence[str], values: Mapping[str, Sequence[object]]) -> list[str]:
    """Return the lines of a table of settings, one column per run or group; [] without settings."""
    if not values:
        return []
    width = (_WIDTH - max(map(len, ["setting", *values]))) // len(names) - 2
    longest = max(width, _NARROWEST)

    def show(value: object) -> str:
        text = "-" if value is None else differences.as_yaml(value)
        # Long values are paths, and two runs' paths differ at the end.
        return text if len(text) <= longest else f"...{text[3 - longest :]}"

    rows = [[key, *map(show, row)] for key, row in values.items()]
    return align_columns([["setting", *names], *rows])


# --- tables of runs -------------------------------------------------------------------------------


def _run_table(runs: Sequence[Entry]) -> list[str]:
    columns = [["run", *(run["name"] for run in runs)]]
    for key in runs[0]["scores"]:
        scores = [run["scores"][key] for run in runs]
        shown = [f"{score['value']:.2f}{plus_minus(score['half_width'])}" for score in scores]
        columns.append([METRICS[key].label, *shown])
        if METRICS[key].is_first:
            columns.append(["p", *(_p(score["p_value"]) for score in scores)])
    for key, form in (("step", ","), ("steps", ","), ("seconds", ",.0f")):
        columns.append([key, *(format(run[key], form) for run in runs)])
    return [*align_columns(zip(*columns, strict=True)), ""]


def _run_notes(reference: str, values: Mapping[str, Iterable[float]]) -> list[str]:
    is_low = any(seed_statistics.says_nothing(name, each) for name, each in values.items())
    return [
        *([seed_statistics.TRAIN_LONGER] if is_low else []),
        "±: half of the 95 % interval. "
        f"p: the probability of such a difference from {reference} by chance.",
        "step: of the scored weights. steps, seconds: of the whole training.",
    ]


# --- tables of groups -----------------------------------------------------------------------------


def report_score(metric: "seed_statistics.MetricComparison", number: int) -> dict[str, Any]:
    """Return a dict, for the JSON output, of the scores of group ``number`` in one metric."""
    score = metric.groups[number]
    return {"signature": metric.signature, **asdict(score), "interval": score.interval}


def _group_tables(groups: Sequence[Entry]) -> Iterator[str]:
    columns = {1: 4, 2: 6}.get(len(groups), 7)
    for key in groups[0]["scores"]:
        table = [[METRICS[key].label, "seeds", "mean", "95 % interval", "difference", "p", "Holm"]]
        for group in groups:
            score = group["scores"][key]
            mean = f"{score['mean']:.2f}{plus_minus(score['deviation'])}"
            row = [group["name"], str(len(score["scores"])), mean, "-", "-", "-", "-"]
            if (interval := score["interval"]) is not None:
                row[3] = f"{interval[0]:.2f} to {interval[1]:.2f}"
            if (difference := score["difference"]) is not None:
                row[4:] = [
                    f"{difference['difference']:+.2f}{plus_minus(difference['half_width'])}",
                    _p(difference["p_value"]),
                    _p(difference["p_holm"]),
                ]
            table.append(row)
        yield from (*align_columns(row[:columns] for row in table), "")


def group_notes(reference: str, groups: int, means: Mapping[str, Iterable[float]]) -> list[str]:
    """Return notes on the columns of a table of groups; ``means`` maps metrics to groups' means."""
    notes = ["mean: over seeds, ± their standard deviation. interval: of the mean, by Student's t."]
    if any(seed_statistics.says_nothing(name, each) for name, each in means.items()):
        notes.insert(0, seed_statistics.TRAIN_LONGER)
    if groups == 1:
        return notes
    return [
        *notes,
        f"difference: from {reference}, ± half of its 95 % interval. p: the probability of such a "
        "difference by chance,",
        "by a test over seeds and sentences together (Clark 1973)."
        + (" Holm: p, corrected for all rows." if groups > 2 else ""),
    ]


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.0005 else f"{value:.3f}"

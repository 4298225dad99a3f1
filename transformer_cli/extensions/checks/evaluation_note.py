"""What ``evaluate`` says of pairs that were seen in training, or are near others that were."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from transformer_cli.base.messages import warn
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.display import align_columns
from transformer_cli.cli.evaluate import EvaluationNote, ScoreSome
from transformer_cli.data.corpus import ParallelText
from transformer_cli.extensions.checks import seen_pairs
from transformer_cli.runs.directory import RunDirectory

with lazy_imports():
    from transformer_cli.extensions.checks import near_copies


class SeenNote(EvaluationNote):
    """Which pairs of a text models have seen in training."""

    def __init__(
        self, runs: Sequence[RunDirectory], name: str, text: ParallelText, has_near: bool
    ) -> None:
        self._name = name
        self._seen = seen_pairs.find_seen(runs, text)
        self._nearest = seen_pairs.find_nearest(runs, text) if has_near else None

    def report(self, hypotheses: Sequence[str], score_some: ScoreSome) -> dict[str, Any]:
        """Return how many pairs were seen, and the scores of the others and by nearness."""
        rest = self._seen.rest
        if not rest:
            problem = "all its pairs were seen in training; scores on it say nothing of other text"
            warn(self._name, problem)
        is_part = 0 < len(rest) < len(self._seen.by_src)
        found = {"seen": {**self._seen.report(), "rest": score_some(rest) if is_part else None}}
        if self._nearest is None:
            return found
        numbers, unknown = self._nearest
        bands = [
            {
                "from": least,
                "to": most,
                **score_some([place for place, own in enumerate(numbers) if own == band]),
            }
            for band, (least, most) in enumerate(pairwise((0.0, *near_copies.BANDS, 1.0)))
        ]
        near = {"bands": bands, "unknown": [path.as_posix() for path in unknown]}
        return {**found, "near": near}

    def format(self, report: Mapping[str, Any]) -> Iterator[str]:
        seen = report["seen"]
        yield from seen_pairs.describe_seen(seen, report["sentences"], "the model")
        if (rest := seen["rest"]) is not None:
            yield f"of the other {rest['sentences']:,}: {_format_scores(rest)}"
        if (near := report.get("near")) is not None:
            yield "by similarity to the nearest training pair:"
            yield from align_columns(
                (f"{band['from']} to {band['to']}", f"{band['sentences']:,}", _format_scores(band))
                for band in near["bands"]
            )
            if near["unknown"]:
                yield f"not compared: the training text of {', '.join(near['unknown'])} is not here"


def _format_scores(some: Mapping[str, Any]) -> str:
    """Return the scores of some pairs, as ``ScoreSome`` has them, on one line."""
    return ", ".join(
        f"{METRICS[name].short or METRICS[name].label} {format_score(score)}"
        for name, score in some["scores"].items()
    )


def format_score(score: Mapping[str, Any]) -> str:
    """Return a score, as JSON has it, with half of its interval if that is known."""
    half = score["half_width"]
    return f"{score['value']:.2f}" + ("" if half is None else f" ± {half:.2f}")

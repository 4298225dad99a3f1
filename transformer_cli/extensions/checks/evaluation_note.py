"""What ``evaluate`` says of pairs that were seen in training."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transformer_cli.base.messages import warn
from transformer_cli.base.metrics import METRICS
from transformer_cli.cli.evaluate import EvaluationNote, ScoreSome
from transformer_cli.data.corpus import ParallelText
from transformer_cli.extensions.checks import seen_pairs
from transformer_cli.runs.directory import RunDirectory


class SeenNote(EvaluationNote):
    """Which pairs of a text models have seen in training."""

    def __init__(self, runs: Sequence[RunDirectory], name: str, text: ParallelText) -> None:
        self._name = name
        self._seen = seen_pairs.find_seen(runs, text)

    def report(self, hypotheses: Sequence[str], score_some: ScoreSome) -> dict[str, Any]:
        """Return how many pairs were seen, and the scores of the others."""
        rest = self._seen.rest
        if not rest:
            problem = "all its pairs were seen in training; scores on it say nothing of other text"
            warn(self._name, problem)
        is_part = 0 < len(rest) < len(self._seen.by_src)
        return {"seen": {**self._seen.report(), "rest": score_some(rest) if is_part else None}}

    def format(self, report: Mapping[str, Any]) -> Iterator[str]:
        seen = report["seen"]
        yield from seen_pairs.describe_seen(seen, report["sentences"], "the model")
        if (rest := seen["rest"]) is not None:
            yield f"of the other {rest['sentences']:,}: {_format_scores(rest)}"


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

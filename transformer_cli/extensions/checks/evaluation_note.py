"""What ``evaluate`` reports about pairs that the model has seen in training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from transformer_cli.base.messages import warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.evaluate import ScoredText
from transformer_cli.config.choices import METRICS
from transformer_cli.extensions.checks import seen_pairs
from transformer_cli.inference.translation import Notes, Translation

with lazy_imports():
    from transformer_cli.evaluation import scores


class SeenNotes(Notes):
    """Notes about the pairs of a scored text that the models have seen in training."""

    def __init__(self, scored: ScoredText) -> None:
        self._scored = scored
        self._seen = seen_pairs.find_seen(scored.runs, scored.pairs)
        self._hypotheses: list[str] = []

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        self._hypotheses.append(found[0].text)
        return ()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The number of seen pairs, and the scores without these pairs."""
        rest = self._seen.rest
        if not rest:
            problem = "all its pairs were seen in training, so its scores are not meaningful"
            warn(self._scored.name, problem)
        is_part = 0 < len(rest) < len(self._seen.by_src)
        return {"seen": {**self._seen.report(), "rest": self._score(rest) if is_part else None}}

    def _score(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Return the number and the scores of the pairs with these indices."""
        sides = (self._hypotheses, self._scored.pairs.tgt)
        translated, references = ([side[number] for number in numbers] for side in sides)
        found = {
            name: scores.measure(metric, translated, references)._asdict()
            for name, metric in self._scored.metrics.by_name().items()
        }
        return {"sentences": len(numbers), "scores": found}

    def remarks(self) -> Iterator[str]:
        seen = self.facts["seen"]
        sentences = len(self._hypotheses)
        none = f"the model has seen none of the {sentences:,} pairs in training"
        yield from seen_pairs.describe_seen(seen, sentences, "the model") or [none]
        if (rest := seen["rest"]) is not None:
            shown = ", ".join(
                f"{METRICS[name].short or METRICS[name].label} {format_score(score)}"
                for name, score in rest["scores"].items()
            )
            yield f"of the other {rest['sentences']:,}: {shown}"


def format_score(score: Mapping[str, Any]) -> str:
    """Format a score from the JSON report, with half the width of its interval if it has one."""
    half = score["half_width"]
    return f"{score['value']:.2f}" + ("" if half is None else f" ± {half:.2f}")

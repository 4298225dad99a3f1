"""A translator that writes the best translations of each line, with scores, as JSON lines."""

import json
from collections.abc import Sequence
from typing import Any

from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import TextTranslator


class ScoringTranslator(TextTranslator[Any]):
    """A translator that writes each line's translations with their scores, as JSON."""

    def to_line(self, number: int, line: str, found: Sequence[Translation]) -> str:
        """Return the translations of a line as one JSON object."""
        estimate = getattr(self, "estimate", None)  # the extension `confidence` adds it
        shown = [
            {
                "text": one.text,
                "score": round(one.score, 4),
                "log_probability": round(one.log_probability, 4),
                **({"good": _round(estimate(one))} if estimate else {}),
            }
            for one in found
        ]
        return json.dumps({"line": number, "translations": shown}, ensure_ascii=False)


def _round(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 3)

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
        shown = [
            {
                "text": one.text,
                "score": round(one.score, 4),
                "log_probability": round(one.log_probability, 4),
                **self._estimate_of(one),
            }
            for one in found
        ]
        return json.dumps({"line": number, "translations": shown}, ensure_ascii=False)

    def _estimate_of(self, one: Translation) -> dict[str, float]:
        estimate = getattr(self, "estimate", None)  # the extension `confidence` adds it
        if estimate is None or not one.tokens:
            return {}
        return {"good": round(estimate(one.log_probability / one.tokens), 3)}

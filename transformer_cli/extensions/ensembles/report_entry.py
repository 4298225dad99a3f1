"""What ``evaluate`` says of the models that are decoded with the run's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.cli.evaluate import EvaluationNote, ScoreSome


@dataclass(frozen=True)
class EnsembleNote(EvaluationNote):
    """Says in a report which models were decoded with the run's."""

    runs: list[str]

    def report(self, hypotheses: Sequence[str], score_some: ScoreSome) -> dict[str, Any]:
        """Return the runs."""
        return {"ensemble": self.runs}

    def format(self, report: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line that names them."""
        yield f"ensemble with {', '.join(self.runs)}"

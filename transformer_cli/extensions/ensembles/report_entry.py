"""The lines that ``evaluate`` adds about the other models of an ensemble."""

from collections.abc import Iterator
from typing import Any

from transformer_cli.inference.translation import Notes


class EnsembleNotes(Notes):
    """Adds the other models of an ensemble to a report."""

    def __init__(self, runs: list[str]) -> None:
        self._runs = runs

    @property
    def facts(self) -> dict[str, Any]:
        """The other models' runs."""
        return {"ensemble": self._runs}

    def remarks(self) -> Iterator[str]:
        """Yield a line that names the runs."""
        yield f"ensemble with {', '.join(self._runs)}"

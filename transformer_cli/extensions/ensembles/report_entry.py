"""The lines that ``evaluate`` adds about the other models of an ensemble."""

from collections.abc import Iterator
from typing import Any

from transformer_cli.inference.translation import Notes


class EnsembleNotes(Notes):
    """``Notes`` that name the other models of an ensemble in the report of ``evaluate``."""

    def __init__(self, runs: list[str]) -> None:
        self._runs = runs

    @property
    def facts(self) -> dict[str, Any]:
        """The run directories of the other models."""
        return {"ensemble": self._runs}

    def remarks(self) -> Iterator[str]:
        """Yield a line that names the run directories of the other models."""
        yield f"ensemble with {', '.join(self._runs)}"

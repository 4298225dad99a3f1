"""What ``evaluate`` says of the models that are decoded with the run's."""

from collections.abc import Iterator
from typing import Any

from transformer_cli.inference.translation import Notes


class EnsembleNotes(Notes):
    """Says in a report which models were decoded with the run's."""

    def __init__(self, runs: list[str]) -> None:
        self._runs = runs

    @property
    def facts(self) -> dict[str, Any]:
        """The runs."""
        return {"ensemble": self._runs}

    def remarks(self) -> Iterator[str]:
        """Yield a line that names them."""
        yield f"ensemble with {', '.join(self._runs)}"

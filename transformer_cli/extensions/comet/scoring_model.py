"""COMET (Rei et al. 2022), a score from a neural network, if its package is installed.

The package needs an older NumPy than this program, so no extra installs it.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import cached_property
from importlib import import_module
from typing import Any

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.config.choices import DeviceName
from transformer_cli.inference.translation import Notes, Translation
from transformer_cli.model.device import choose_device

COMET_MODEL = "Unbabel/wmt22-comet-da"


def load_comet(device: DeviceName, references: Sequence[str]) -> "CometNotes":
    """Load COMET's default model, which the package downloads on first use."""
    with redirect_stdout(sys.stderr):
        failed, advice = "the package unbabel-comet cannot be imported", "reinstall it"
        try:
            comet = import_module("comet")
            failed = f"{COMET_MODEL} could not be loaded"
            advice = "it is downloaded once, so check the network"
            model = comet.load_from_checkpoint(comet.download_model(COMET_MODEL))
        except ModuleNotFoundError as error:
            raise _error(
                f"needs the package unbabel-comet, but {error.name} is not installed; "
                "pip install unbabel-comet 'setuptools<81'"
            ) from error
        except Exception as error:  # of many types, as several packages are involved
            reason = " ".join(str(error).split()) or type(error).__name__
            raise _error(f"{failed} ({reason}); {advice}") from error
    return CometNotes(model, references, choose_device(device).type == "cuda")


def _error(problem: str) -> MissingExtraError:
    return MissingExtraError(f"evaluate: --comet: {problem}, or leave out --comet")


class CometNotes(Notes):
    """``Notes`` that compute the COMET score of a translated text; 1 is the best score."""

    def __init__(self, model: Any, references: Sequence[str], on_gpu: bool) -> None:
        self._model, self._references, self._on_gpu = model, references, on_gpu
        self._samples: list[dict[str, str]] = []

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Collect a line's best translation, to score it later."""
        reference = self._references[len(self._samples)]
        self._samples.append({"src": src, "mt": found[0].text, "ref": reference})
        return ()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The COMET score and the name of the COMET model, for a JSON report."""
        with redirect_stdout(sys.stderr):
            predicted = self._model.predict(
                self._samples, gpus=int(self._on_gpu), progress_bar=sys.stderr.isatty()
            )
        return {"comet": float(predicted.system_score), "comet_model": COMET_MODEL}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the row with the COMET score for the table of scores."""
        yield "COMET", f"{self.facts['comet']:8.4f}", self.facts["comet_model"]

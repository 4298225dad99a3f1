"""COMET (Rei et al. 2022): a score by a neural network, where its package is installed.

It needs an older NumPy than the one that would be installed here, so no extra brings it.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.cli.evaluate import EvaluationNote, ScoreSome
from transformer_cli.config.choices import DeviceName
from transformer_cli.data.corpus import ParallelText
from transformer_cli.model.device import choose_device

COMET_MODEL = "Unbabel/wmt22-comet-da"


def load_comet(device: DeviceName, text: ParallelText) -> "CometNote":
    """Load COMET's usual model, which its package downloads once."""
    with redirect_stdout(sys.stderr):
        failed, advice = "the package unbabel-comet cannot be imported", "reinstall it"
        try:
            comet = import_module("comet")
            failed = f"{COMET_MODEL} could not be loaded"
            advice = "it is downloaded once, so check the network"
            model = comet.load_from_checkpoint(comet.download_model(COMET_MODEL))
        except ModuleNotFoundError as error:
            raise _error(
                f"needs the package unbabel-comet, and {error.name} is not installed; "
                "pip install unbabel-comet 'setuptools<81'"
            ) from error
        except Exception as error:  # of many kinds, as several packages have a hand in it
            reason = " ".join(str(error).split()) or type(error).__name__
            raise _error(f"{failed} ({reason}); {advice}") from error
    return CometNote(model, text, choose_device(device).type == "cuda")


def _error(problem: str) -> MissingExtraError:
    return MissingExtraError(f"evaluate: --comet: {problem}, or leave out --comet")


class CometNote(EvaluationNote):
    """COMET's score of a text: 1 is the best."""

    def __init__(self, model: Any, text: ParallelText, on_gpu: bool) -> None:
        self._model, self._text, self._on_gpu = model, text, on_gpu

    def report(self, hypotheses: Sequence[str], score_some: ScoreSome) -> dict[str, Any]:
        """Return the score and the model's name."""
        samples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(
                self._text.src, hypotheses, self._text.tgt, strict=True
            )
        ]
        with redirect_stdout(sys.stderr):
            predicted = self._model.predict(
                samples, gpus=int(self._on_gpu), progress_bar=sys.stderr.isatty()
            )
        return {"comet": float(predicted.system_score), "comet_model": COMET_MODEL}

    def rows(self, report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return the score's row."""
        return [("COMET", f"{report['comet']:8.4f}", report["comet_model"])]

"""COMET (Rei et al. 2022): a score by a neural network, where its package is installed.

Its package wants an older NumPy than the one that would be installed here, so no extra brings it.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module

import torch

from transformer_cli.errors import CometError, MissingExtraError

MODEL = "Unbabel/wmt22-comet-da"
CometScore = Callable[[Sequence[str], Sequence[str], Sequence[str]], float]
"""From sources, translations and references, as many of each, to a score: 1 is the best."""


def open_comet(device: torch.device) -> CometScore:
    """Load COMET's usual model, which its package fetches from the network once.

    Args:
        device: where to compute.

    Raises:
        MissingExtraError: a package is not installed.
        CometError: the model cannot be had or loaded.
    """
    with redirect_stdout(sys.stderr):
        try:
            comet = import_module("comet")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"needs the package unbabel-comet, and {error.name} is not installed; "
                "pip install unbabel-comet 'setuptools<81'"
            ) from error
        except Exception as error:  # made for other versions of what it imports, say
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CometError(
                f"the package unbabel-comet cannot be imported ({reason}); reinstall it"
            ) from error
        try:
            model = comet.load_from_checkpoint(comet.download_model(MODEL))
        except Exception as error:  # of many kinds, as several packages have a hand in it
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CometError(
                f"{MODEL} could not be loaded ({reason}); it is downloaded once, so check the "
                "network"
            ) from error

    def score(src: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> float:
        samples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(src, hypotheses, references, strict=True)
        ]
        with redirect_stdout(sys.stderr):
            found = model.predict(
                samples, gpus=int(device.type == "cuda"), progress_bar=sys.stderr.isatty()
            )
        return float(found.system_score)

    return score

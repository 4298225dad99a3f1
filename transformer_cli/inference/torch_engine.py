"""Search by torch, as other engines are used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from transformer_cli.inference.engine import Hypothesis, SearchOptions, describe_versions
from transformer_cli.inference.search import search_all
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model


@dataclass(frozen=True)
class TorchEngine:
    """Greedy and beam search over our own model; a ``SearchEngine``.

    Attributes:
        model: on its device, in evaluation mode.
        precision: type of the matrix products.
    """

    model: Transformer
    precision: torch.dtype
    name = "torch"

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.device.type != "cpu"

    @property
    def fingerprint(self) -> dict[str, str]:
        """What decides the output: the precision, and torch's version, as rounding differs."""
        precision = {"precision": str(self.precision).removeprefix("torch.")}
        return precision | describe_versions("torch")

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source; see ``SearchEngine.search``."""
        with autocast(self.device, self.precision), pack_weights(self.model):
            return search_all(
                self.model,
                self.precision,
                sources,
                max_lengths,
                options,
                batch_tokens,
                progress,
                should_stop,
            )


TorchTranslator = TextTranslator[TorchEngine]
"""A translator with the torch model, which also gives losses."""


def load_torch_translator(
    run: RunDirectory, checkpoint: str, device: torch.device, precision: torch.dtype
) -> TorchTranslator:
    """Load a trained run, or a model as it is shared; see ``load_trained_model``.

    Raises:
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    trained = load_trained_model(run, checkpoint)
    engine = TorchEngine(trained.model.to(device), precision)
    return TextTranslator(
        engine, trained.tokenizers, trained.config, trained.config.decoding, checkpoint=trained.sum
    )

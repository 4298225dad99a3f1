"""Several models that are decoded as one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.model.transformer import DecoderLayer, DecoderState, Transformer


class Ensemble(nn.Module):
    """Predicts the mean of its models' next-token probabilities.

    It offers what search, losses and alignments need of a ``Transformer``. Its hidden states are
    those of its models, side by side, and its logits are logarithms of the mean probabilities. The
    models have the same source and target ids; widths may differ.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.pad_id = models[0].pad_id
        self.tgt_size = models[0].tgt_size
        self._widths = [model.output.in_features for model in models]

    def hidden_states(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt widths"]:
        """Return the decoders' outputs side by side."""
        return torch.cat([model.hidden_states(src, tgt_in) for model in self._members()], dim=2)

    def init_state(self, src: Int[Tensor, "batch src"], beam_size: int = 1) -> "EnsembleState":
        """Encode ``src`` and return the state for decoding ``beam_size`` hypotheses per row."""
        return EnsembleState([model.init_state(src, beam_size) for model in self._members()])

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: "EnsembleState"
    ) -> Float[Tensor, "batch hypothesis widths"]:
        """Feed ``tokens`` and return the decoders' outputs; ``state`` advances by a position."""
        members = zip(self._members(), state.states, strict=True)
        return torch.cat([model.step(tokens, of_model) for model, of_model in members], dim=2)

    def logits(
        self, hidden_states: Float[Tensor, "*batch widths"]
    ) -> Float[Tensor, "*batch tgt_size"]:
        """Return the logarithms of the mean probabilities, in float32."""
        parts = torch.split(hidden_states, self._widths, dim=-1)
        log_probabilities = [
            model.logits(part).log_softmax(dim=-1, dtype=torch.float32)
            for model, part in zip(self._members(), parts, strict=True)
        ]
        return torch.stack(log_probabilities).logsumexp(dim=0) - math.log(len(parts))

    def decoder_layers(self) -> list[DecoderLayer]:
        """Return the decoder layers of all models."""
        return [layer for model in self._members() for layer in model.decoder_layers()]

    def _members(self) -> list[Transformer]:
        return list(self.models)  # type: ignore[arg-type]


@dataclass
class EnsembleState:
    """Incremental decoding state of each model of an ensemble."""

    states: list[DecoderState]

    def reorder(self, parents: Int[Tensor, "batch hypothesis"]) -> None:
        """Let each hypothesis continue the one at place ``parents`` of the beam."""
        for state in self.states:
            state.reorder(parents)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep these rows of the batch, in this order."""
        for state in self.states:
            state.select(rows)

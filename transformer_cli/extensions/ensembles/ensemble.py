"""Combines several models into one for decoding, and names them in reports."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.base.errors import UsageError
from transformer_cli.inference.translation import Notes
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.transformer import DecoderLayer, DecoderState, Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.tokenizer import have_same_tokenizers

Translator = TypeVar("Translator", bound=TextTranslator[Any])


def add_models(
    translator: Translator, run: Path, others: Sequence[Path], checkpoint: str
) -> Translator:
    """Return a translator that also decodes with the models of other runs.

    ``run`` is the translator's run; ``checkpoint`` is 'best', 'last' or 'average'. The search
    settings are still those of the translator.

    Raises:
        UsageError: the runs cannot be combined.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    engine = translator.engine
    loaded = [_load(RunDirectory(other), checkpoint, run, translator) for other in others]
    ensemble = Ensemble([engine.model, *(each.model.to(engine.device) for each in loaded)])
    return replace(
        translator,
        engine=replace(engine, model=ensemble),
        checkpoint="+".join([translator.checkpoint, *(each.sum for each in loaded)]),
    )


def _load(
    other: RunDirectory, checkpoint: str, run: Path, translator: TextTranslator[Any]
) -> TrainedModel:
    loaded = load_trained_model(other, checkpoint)
    if not have_same_tokenizers(RunDirectory(run).tokenizer, other.tokenizer):
        raise UsageError(
            f"--ensemble {other.path}: its tokenizer differs from {run}'s; use runs of one config "
            "with other seeds or sizes, or runs that start from such a run"
        )
    ours, theirs = translator.config.model, loaded.config.model
    if (ours.positions, ours.max_positions) != (theirs.positions, theirs.max_positions):
        raise UsageError(
            f"--ensemble {other.path}: its model.positions or model.max_positions differ from "
            f"those of {run}"
        )
    return loaded


class Ensemble(Transformer):
    """A module that predicts the mean of its models' next-token probabilities.

    It has the methods of a ``Transformer`` that are called by search, losses and alignments, but no
    embeddings or layers. Its hidden states are the models' hidden states, concatenated. Its logits
    are the logarithms of the mean probabilities. The models have the same source and target ids;
    their widths may differ.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        nn.Module.__init__(self)  # it has no weights of its own
        self.models = nn.ModuleList(models)
        self.pad_id = models[0].pad_id
        self.tgt_size = models[0].tgt_size
        self._widths = [model.output.in_features for model in models]

    def hidden_states(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt widths"]:
        """Return the outputs of the models' decoders, concatenated."""
        return torch.cat([model.hidden_states(src, tgt_in) for model in self._members()], dim=2)

    def init_state(self, src: Int[Tensor, "batch src"], beam_size: int = 1) -> "EnsembleState":
        """Encode ``src`` and return the state for decoding ``beam_size`` hypotheses per row."""
        return EnsembleState([model.init_state(src, beam_size) for model in self._members()])

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: DecoderState
    ) -> Float[Tensor, "batch hypothesis widths"]:
        """Feed ``tokens``, return the concatenated outputs, and advance ``state`` by a position."""
        assert isinstance(state, EnsembleState)
        members = zip(self._members(), state.states, strict=True)
        return torch.cat([model.step(tokens, of_model) for model, of_model in members], dim=2)

    def logits(
        self, hidden_states: Float[Tensor, "*batch widths"]
    ) -> Float[Tensor, "*batch tgt_size"]:
        """Return the logarithms of the models' mean probabilities, in float32."""
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


class EnsembleState(DecoderState):
    """The incremental decoding states of all models of an ensemble."""

    def __init__(self, states: Sequence[DecoderState]) -> None:
        self.states = states

    def reorder(self, parents: Int[Tensor, "batch hypothesis"]) -> None:
        """Give each hypothesis the state of its parent, whose beam position is in ``parents``."""
        for state in self.states:
            state.reorder(parents)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep only these rows of the batch, in this order."""
        for state in self.states:
            state.select(rows)


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

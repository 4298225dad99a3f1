"""The settings of an experiment: every key that a config may have, with its unit and default.

Defaults from the literature are from "Attention Is All You Need" (Vaswani et al. 2017), unless the
field says otherwise.
"""

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PositiveFloat, SerializeAsAny, model_validator

from transformer_cli.config.choices import SelectName, TokenizerName
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.sections import (
    Count,
    CountOrZero,
    DropoutRate,
    FilePath,
    Kinds,
    Layers,
    Probability,
    Section,
    Width,
    setting,
)
from transformer_cli.config.tokenizer_schema import TokenizerConfig


class ModelConfig(Section):
    """The Transformer's size and architecture. The defaults give a small model for small data."""

    d_model: Width = setting(256, "width of every layer's input and output")
    num_heads: Width = setting(4, "attention heads; must divide d_model")
    d_ff: Width = setting(1024, "inner width of the feed-forward layers")
    num_encoder_layers: Layers = setting(3, "encoder layers")
    num_decoder_layers: Layers = setting(3, "decoder layers")
    dropout: DropoutRate = setting(0.1, "dropout rate of embeddings and each sublayer's output")
    attention_dropout: DropoutRate = setting(0.0, "dropout rate of attention weights")
    activation_dropout: DropoutRate = setting(0.0, "dropout rate after the feed-forward activation")
    norm: Literal["pre", "post"] = setting(
        "pre", "normalize before each sublayer, or after it as in Vaswani et al. 2017"
    )
    norm_kind: Literal["layernorm", "rmsnorm"] = setting(
        "layernorm", "rmsnorm subtracts no mean (Zhang et al. 2019)"
    )
    positions: Literal["sinusoidal", "learned"] = setting(
        "sinusoidal", "position encoding; learned: inputs can have at most max_positions tokens"
    )
    max_positions: Width = setting(512, "maximum input length in tokens, if positions are learned")
    activation: Literal["relu", "gelu", "swish", "swiglu"] = setting(
        "relu", "feed-forward activation; swiglu adds a third matrix (Shazeer 2020)"
    )
    tying: Literal["none", "output", "all"] = setting(
        "output",
        "which layers share weights; output: target embedding and output layer; all: source "
        "embedding too, which needs a joint vocabulary",
    )

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} heads do not divide d_model {self.d_model}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"d_model: sinusoidal positions need an even d_model, not {self.d_model}"
            )
        return self


_WARMUP = "optimizer steps of linear warm-up"


class Schedule(Section):
    """How the learning rate depends on the optimizer step; each ``kind`` has a subclass."""

    kind: str
    if TYPE_CHECKING:  # each kind has this field, at its own position
        warmup: int

    def rate(self, step: int, total_steps: int, d_model: int) -> float:
        """Return the learning rate at a step, counted from 1, of ``total_steps``."""
        raise NotImplementedError


class NoamSchedule(Schedule):
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017)."""

    kind: Literal["noam"]
    factor: PositiveFloat = setting(2.0, "scale of the whole schedule")
    warmup: Count = setting(4000, _WARMUP)

    def rate(self, step: int, total_steps: int, d_model: int) -> float:
        """Return the learning rate that equation 3 of the paper gives."""
        scale = self.factor / math.sqrt(d_model)
        return scale * min(1.0 / math.sqrt(step), step / math.sqrt(self.warmup) ** 3)


class PeakSchedule(Schedule):
    """A schedule that rises linearly to ``peak``; subclasses define ``share``, the rest of it."""

    peak: PositiveFloat = Field(description="peak learning rate")
    warmup: CountOrZero = Field(description=_WARMUP)

    def rate(self, step: int, total_steps: int, d_model: int) -> float:
        """Return the learning rate: linear during the warm-up, then the peak times ``share``."""
        if step < self.warmup:
            return self.peak * step / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, total_steps - self.warmup))
        return self.peak * self.share(step, done)

    def share(self, step: int, done: float) -> float:
        """Return the learning rate at a step after the warm-up, as a fraction of the peak.

        ``done`` is the completed fraction of the steps after the warm-up.
        """
        raise NotImplementedError


class ConstantSchedule(PeakSchedule):
    """A linear rise over the warm-up, then constant at ``peak``."""

    kind: Literal["constant"]
    warmup: CountOrZero = setting(0, _WARMUP)

    def share(self, step: int, done: float) -> float:
        return 1.0


class InverseSqrtSchedule(PeakSchedule):
    """A linear rise to ``peak``, then peak * sqrt(warmup / step): noam, set by its peak."""

    kind: Literal["inverse_sqrt"]
    warmup: Count = Field(description=_WARMUP)

    def share(self, step: int, done: float) -> float:
        return math.sqrt(self.warmup / step)


class LinearSchedule(PeakSchedule):
    """A linear rise to ``peak``, then a straight line to zero at the last step."""

    kind: Literal["linear"]

    def share(self, step: int, done: float) -> float:
        return 1.0 - done


class CosineSchedule(PeakSchedule):
    """A linear rise to ``peak``, then half a cosine to zero at the last step."""

    kind: Literal["cosine"]

    def share(self, step: int, done: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * done))


ScheduleConfig = Annotated[
    Schedule,
    Kinds(
        "schedule",
        *(NoamSchedule, ConstantSchedule, InverseSqrtSchedule, LinearSchedule, CosineSchedule),
    ),
]


class TrainingConfig(Section):
    """Optimization, validation and checkpoints."""

    place = "training"
    average: ClassVar[str | None] = None
    """The name of the setting that averages the weights, if an extension's mixin has one."""

    epochs: Count = setting(10, "passes over the training text", may_change=True)
    max_steps: Count | None = setting(
        None, "stop after this many optimizer steps, even if epochs remain", may_change=True
    )
    batch_tokens: Count = setting(4096, "maximum tokens per side in a batch, including padding")
    accumulate: Count = setting(
        1, "batches per optimizer step on each process (gradient accumulation)", may_change=True
    )
    max_length: Count = setting(256, "maximum tokens per side; longer training pairs are left out")
    freeze: Annotated[
        list[Literal["embeddings", "encoder", "decoder"]],
        AfterValidator(lambda parts: sorted(set(parts))),
    ] = setting(
        [],
        "one or two parts of the model whose weights don't change; needs init. embeddings "
        "include learned positions and a tied output matrix, but not the output bias",
    )
    label_smoothing: Probability = setting(0.1, "probability spread over the wrong target tokens")
    rdrop_alpha: Annotated[float, Field(ge=0.0, le=1e6)] = setting(
        0.0,
        "weight (alpha) of R-Drop (Liang et al. 2021): two forward passes with "
        "different dropout, whose divergence is added to the loss; 0: one pass, in half the time",
    )
    ema_decay: Annotated[float, Field(gt=0.0, lt=1.0)] | None = setting(
        None,
        "decay of an exponential moving average of the weights (Polyak and Juditsky 1992); the "
        "average is validated and saved; null: no average",
    )
    schedule: ScheduleConfig = setting(
        NoamSchedule(kind="noam"), "learning rate at each optimizer step"
    )
    optimizer: Literal["adam", "muon"] = setting(
        "adam",
        "muon (Jordan et al. 2024) updates the matrices of encoder and decoder layers with "
        "orthogonalized momentum, and all other weights with Adam; both follow the schedule",
    )
    muon_momentum: Probability = setting(0.95, "Muon's momentum")
    betas: Annotated[tuple[Probability, Probability], Field(strict=False)] = setting(
        (0.9, 0.98), "Adam's betas"
    )
    eps: PositiveFloat = setting(1e-9, "Adam's epsilon")
    clip_norm: PositiveFloat | None = setting(1.0, "maximum gradient norm; null: no clipping")
    skip_nonfinite: CountOrZero = setting(
        0,
        "how many steps with a non-finite loss or gradient to skip; the next one is an error",
        may_change=True,
    )
    validate_every: Count | None = setting(
        None, "optimizer steps between validations; null: once an epoch"
    )
    save_every: Count | None = setting(
        None,
        "optimizer steps between checkpoints; null: at validations only",
        may_change=True,
        may_differ=True,
    )
    keep_last: Count = setting(
        2, "newest checkpoints to keep, besides the best one", may_change=True, may_differ=True
    )
    select: SelectName | None = setting(
        None,
        "validation score that decides which checkpoint is best; null: chrf if the target "
        "language has no spaces between words, else bleu",
    )
    patience: Count | None = setting(
        None,
        "stop after this many validations without a better score; null: never",
        may_change=True,
    )

    @property
    def has_average(self) -> bool:
        """Whether an average of the weights, not the weights themselves, is validated and saved."""
        return self.ema_decay is not None or self.average is not None


class EvaluationConfig(Section):
    """How translations are scored, during training and afterwards."""

    tokenize: TokenizerName | None = setting(
        None,
        "sacreBLEU's tokenizer for BLEU; null: depends on the target language",
    )


class Config(Section):
    """A whole experiment."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] = setting(
        1, "random seed of weights, batches, dropout and sampled subwords", may_differ=True
    )
    init: FilePath | None = setting(
        None,
        "directory of a run whose tokenizer and best weights this run starts from; "
        "null: random weights",
    )
    data: DataConfig
    tokenizer: TokenizerConfig
    model: ModelConfig = ModelConfig()
    training: SerializeAsAny[TrainingConfig] = TrainingConfig()
    decoding: DecodingConfig = setting(DecodingConfig(), None, may_change=True)
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        frozen = self.training.freeze
        if self.training.optimizer == "muon" and {"encoder", "decoder"} <= set(frozen):
            raise ValueError(
                "training.optimizer: muon updates the matrices of encoder and decoder, but both "
                "are frozen; use adam"
            )
        if frozen and self.init is None:
            raise ValueError(
                "training.freeze: random weights would stay random; set init to the run that has "
                "the weights"
            )
        if len(frozen) == 3:
            raise ValueError("training.freeze: all three parts are frozen; leave one out to train")
        if self.model.tying == "all" and not self.tokenizer.one_vocabulary:
            raise ValueError(
                "model.tying: 'all' needs one vocabulary for both sides "
                "(subwords with joint: true, or one file for both); use 'output'"
            )
        longest, positions = self.training.max_length, self.model.max_positions
        if self.model.positions == "learned" and longest >= positions:
            raise ValueError(
                f"model.max_positions: {positions} must be more than training.max_length {longest} "
                "(one position is for EOS)"
            )
        for _, section in self:
            if isinstance(section, Section):
                section.check_with(self)
        return self

"""Validate a model while it is trained, by greedy translation of the validation split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.evaluation import scoring
from transformer_cli.evaluation.metrics import Metrics
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.training.metrics import Sample, Validation
from transformer_cli.training.preparation import PreparedData
from transformer_cli.training.trainer import Trainer

_SAMPLES = 3
_SAMPLE_LENGTH = 300
"""Most characters of a line in metrics.jsonl, where a line of text may have millions."""


@dataclass(frozen=True)
class Validator:
    """Evaluates a trainer's ``eval_model`` on the validation split."""

    trainer: Trainer
    translator: TextTranslator[TorchEngine]
    pairs: ParallelText
    num_unscored: int
    """Pairs that are too long to be in the validation loss."""
    metrics: Metrics
    select: str
    """What the best checkpoint is chosen by."""

    def __call__(self, should_stop: Callable[[], bool]) -> Validation | None:
        """Evaluate the model; return None if asked to stop."""
        self.trainer.eval_model.eval()
        try:
            measured = scoring.evaluate(
                self.translator,
                self.pairs,
                ranks=self.trainer.ranks,
                should_stop=should_stop,
                metrics=self.metrics,
            )
        except scoring.EvaluationStoppedError:
            return None
        scores = measured.scores
        samples = choose_samples(self.pairs, measured.hypotheses)
        return Validation(
            measured.loss,
            scores.bleu,
            scores.bleu_lc,
            scores.chrf,
            self.metrics.tokenize,
            self.select,
            samples,
        )


def choose_samples(pairs: ParallelText, hypotheses: Sequence[str]) -> list[Sample]:
    """Return the translations of a few evenly spaced pairs."""
    places = {(2 * number + 1) * len(pairs) // (2 * _SAMPLES) for number in range(_SAMPLES)}
    return [
        Sample(*(_shorten(side[place]) for side in (pairs.src, pairs.tgt, hypotheses)))
        for place in sorted(places)
    ]


def _shorten(line: str) -> str:
    return line if len(line) <= _SAMPLE_LENGTH else f"{line[:_SAMPLE_LENGTH]}…"


def build_validator(
    config: Config,
    data: PreparedData,
    trainer: Trainer,
    metrics: Metrics,
    select: str,
) -> Validator:
    """Build the validator of a training.

    Args:
        config: the experiment's settings.
        data: the run's prepared data.
        trainer: its ``eval_model`` is validated.
        metrics: what it is scored by.
        select: what the best checkpoint is chosen by.

    Raises:
        InputError: a validation sentence is too long for the model.
    """
    engine = TorchEngine(trainer.eval_model, trainer.precision)
    translator = TextTranslator(engine, data.tokenizers, config, config.decoding)
    num_unscored = len(data.val) - len(scoring.find_measurable_pairs(translator, data.val))
    translator = translator.with_search(beam_size=1)
    translator.check_lengths(data.val.src.lengths, "validation source sentence")
    translator.check_lengths(data.val.tgt.lengths, "validation target sentence")
    return Validator(trainer, translator, data.texts.val, num_unscored, metrics, select)

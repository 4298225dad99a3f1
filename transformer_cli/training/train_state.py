"""The part of the training state that validations and early stopping need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transformer_cli.metrics import METRICS


@dataclass(frozen=True)
class Sample:
    """A validation pair and its translation, for people to look at; shortened if it is long."""

    source: str
    reference: str
    translation: str


class Validation(NamedTuple):
    """Metrics of the model on the validation split."""

    loss: float
    """Mean negative log-likelihood of a target token."""
    scores: Mapping[str, float]
    """Of greedy translations, by the metric's name."""
    tokenize: str = "13a"
    """sacreBLEU's name of BLEU's tokenizer."""
    select: str = "bleu"
    """What the best checkpoint is chosen by."""
    samples: Sequence[Sample] = ()
    """Of the same pairs each time."""

    @property
    def rank(self) -> float:
        """What is highest at the best checkpoint."""
        return METRICS[self.select].rank({**self.scores, "loss": self.loss}[self.select])


@dataclass
class TrainState:
    """The best validation, the number of validations since, and the time spent training."""

    best_step: int | None = None
    best_rank: float = -1.0
    """Its ``Validation.rank``: a score, or the negative loss."""
    best_loss: float = 0.0
    bad_validations: int = 0
    """Validations since the best one."""
    seconds: float = 0.0
    """Time spent training, in all sessions."""

    def update(self, step: int, rank: float, loss: float) -> bool:
        """Add a validation's result; return whether it is the best so far."""
        is_best = self.best_step is None or (rank, -loss) > (self.best_rank, -self.best_loss)
        if is_best:
            self.best_step, self.best_rank, self.best_loss = step, rank, loss
            self.bad_validations = 0
        else:
            self.bad_validations += 1
        return is_best

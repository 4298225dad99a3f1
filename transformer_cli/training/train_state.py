"""What a run has achieved so far."""

from dataclasses import dataclass


@dataclass
class TrainState:
    """The best validation, how long ago it was, and the time that training took."""

    best_step: int | None = None
    best_bleu: float = -1.0
    best_loss: float = 0.0
    bad_validations: int = 0
    """Validations since the best one."""
    seconds: float = 0.0
    """Time spent training, in all sessions."""

    def judge(self, step: int, bleu: float, loss: float) -> bool:
        """Take a validation's result in; tell whether it is the best one yet."""
        is_best = (bleu, -loss) > (self.best_bleu, -self.best_loss)
        if is_best:
            self.best_step, self.best_bleu, self.best_loss = step, bleu, loss
            self.bad_validations = 0
        else:
            self.bad_validations += 1
        return is_best

"""What a training measures: metrics.jsonl, validations, and the best one so far."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.compression import write_text
from transformer_cli.errors import RunError
from transformer_cli.files import open_regular
from transformer_cli.metrics import METRICS
from transformer_cli.runs.records import read_lines


def append_to_log(path: Path, data: bytes) -> None:
    """Append to a file of the run, without following a link."""
    try:
        with open_regular(path, "ab") as file:
            file.write(data)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written: {error.strerror}; mend that, and the same "
            "command resumes from the last checkpoint"
        ) from error


@dataclass(frozen=True)
class MetricsLog:
    """Appends to metrics.jsonl."""

    path: Path

    @classmethod
    def open(cls, path: Path, last_step: int, is_validated: bool = True) -> "MetricsLog":
        """Open the file; drop records of steps after the checkpoint's, which will be repeated.

        If that step's validation is not done, its record is dropped, too.
        """
        last = (last_step, "validation" if is_validated else "train")
        kept = [line for line in read_lines(path) if _parse_place(line) <= last]
        write_text(path, b"".join(kept).decode(errors="replace"))
        return cls(path)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record; see ``append_to_log``."""
        append_to_log(self.path, f"{json.dumps(record)}\n".encode())


def _parse_place(line: bytes) -> tuple[float, str]:
    """Return a record's step and kind, its sort key: 'train' comes before 'validation'."""
    try:
        record = json.loads(line)
        if line.endswith(b"\n"):
            return float(record["step"]), str(record["kind"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return math.inf, ""  # cut short when a process was killed


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


def perplexity(loss: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite on overflow."""
    return math.inf if loss >= 700.0 else math.exp(loss)

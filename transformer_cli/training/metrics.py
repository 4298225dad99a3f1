"""The training metrics: metrics.jsonl, and the sums its training records are computed from."""

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.errors import RunError
from transformer_cli.files import write_text
from transformer_cli.foreign_files import open_regular
from transformer_cli.model.device import sum_dtype
from transformer_cli.ranks import Ranks
from transformer_cli.runs.records import read_lines
from transformer_cli.training.loss import Losses
from transformer_cli.training.trainer import StepResult

# The keys of ``Losses`` in state.json.
_KEYS = ("smoothed", "unsmoothed")


@dataclass(frozen=True)
class MetricsLog:
    """Appends to metrics.jsonl."""

    path: Path

    @classmethod
    def open(cls, path: Path, last_step: int, is_validated: bool = True) -> "MetricsLog":
        """Open the file; drop records of steps after the checkpoint, which will be repeated.

        Args:
            path: the file, created if it is missing.
            last_step: the checkpoint's step.
            is_validated: whether that step's validation is done; else its record is dropped, too.
        """
        last = (last_step, "validation" if is_validated else "train")
        kept = [line for line in read_lines(path) if _parse_place(line) <= last]
        write_text(path, b"".join(kept).decode(errors="replace"))
        return cls(path)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record.

        Raises:
            RunError: it cannot be written completely.
        """
        try:
            with open_regular(self.path, "ab") as file:
                file.write(f"{json.dumps(record)}\n".encode())
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written: {error.strerror}; mend that, and the same "
                "command resumes from the last checkpoint"
            ) from error


def _parse_place(line: bytes) -> tuple[float, str]:
    """Return a record's step and kind, its sort key: 'train' comes before 'validation'."""
    try:
        record = json.loads(line)
        if line.endswith(b"\n"):
            return float(record["step"]), str(record["kind"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return math.inf, ""  # cut short when a process was killed


@dataclass
class Window:
    """Losses summed over the steps since the last record, on the device."""

    losses: Losses
    tgt_tokens: Int[Tensor, ""]

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device) -> "Window":
        """Restore the window from ``state``."""
        values = [state[key] for key in _KEYS]
        sums = torch.tensor(values, dtype=sum_dtype(device), device=device)
        return cls(Losses(*sums.unbind()), torch.full((), state["tgt_tokens"], device=device))

    @classmethod
    def empty(cls, device: torch.device) -> "Window":
        """Return the window before its first step."""
        return cls.from_state({**dict.fromkeys(_KEYS, 0.0), "tgt_tokens": 0}, device)

    def add(self, result: StepResult) -> None:
        """Add one step."""
        for total, loss in zip(self.losses, result.losses, strict=True):
            total += loss
        self.tgt_tokens += result.tgt_tokens * result.is_finite

    def reduce(self, ranks: Ranks) -> None:
        """Sum over all ranks on the main process; the others start again from zero."""
        if ranks.size == 1:
            return
        sums = (*self.losses, self.tgt_tokens)
        for own, total in zip(sums, ranks.sum([each.item() for each in sums]), strict=True):
            own.fill_(total if ranks.is_main else 0)

    def state(self) -> dict[str, Any]:
        """Return the sums, for a checkpoint."""
        losses = (loss.item() for loss in self.losses)
        return {**dict(zip(_KEYS, losses, strict=True)), "tgt_tokens": self.tgt_tokens.item()}


@dataclass
class Pace:
    """How fast a session trains.

    Attributes:
        first_step: the step that the session starts from.
    """

    first_step: int
    _began: float = field(default_factory=time.monotonic)
    _tokens: int = 0
    _since: float = field(default_factory=time.monotonic)

    def add(self, tokens: int) -> None:
        """Count the target tokens of a step."""
        self._tokens += tokens

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time that the block takes, which is no step, out of the tokens a second."""
        started = time.monotonic()
        yield
        self._since += time.monotonic() - started

    def read_tokens_per_second(self) -> int:
        """Return the target tokens a second since this was last asked."""
        now = time.monotonic()
        rate = self._tokens / max(now - self._since, 1e-9)
        self._tokens, self._since = 0, now
        return round(rate)

    def estimate_seconds(self, step: int, total_steps: int) -> int:
        """Return the seconds to the last step, if the session goes on as before.

        Its validations are part of what the estimate is made from.
        """
        elapsed = time.monotonic() - self._began
        return round(elapsed / (step - self.first_step) * (total_steps - step))


def perplexity(loss: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite on overflow."""
    return math.inf if loss >= 700.0 else math.exp(loss)

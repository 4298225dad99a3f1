"""The run's measurements: one JSON object a line, and the sums they are made from."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_cli.errors import RunError
from transformer_cli.files import write_text
from transformer_cli.ranks import Ranks
from transformer_cli.training.trainer import StepResult


class MetricsLog:
    """Appends to ``metrics.jsonl``; on resuming, forgets what was measured after the checkpoint.

    Args:
        path: the file, made if it is missing.
        last_step: records of later steps are dropped: they will be measured again.
        validated: whether that step's validation is done; otherwise its record is dropped, too.
    """

    def __init__(self, path: Path, last_step: int, validated: bool = True) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        last = (last_step, "validation" if validated else "train")
        kept = [line for line in text.splitlines(keepends=True) if _place_of(line) <= last]
        write_text(path, "".join(kept))

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record.

        Raises:
            RunError: it cannot be written; half of it may be.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written: {error.strerror}; mend that, and the same "
                "command goes on from the last checkpoint"
            ) from error


def _place_of(line: str) -> tuple[float, str]:
    """A record's step and kind, which order them: 'train' comes before 'validation'."""
    try:
        record = json.loads(line)
        if line.endswith("\n"):
            return float(record["step"]), str(record["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return math.inf, ""  # cut short when a process was killed


@dataclass
class Window:
    """Sums over the steps since the last record, on the device they were made on."""

    smoothed: Tensor
    unsmoothed: Tensor
    tgt_tokens: int

    @classmethod
    def restored(cls, sums: Mapping[str, Any], device: torch.device) -> "Window":
        """The window with the sums that ``state`` gave."""
        return cls(
            torch.tensor(sums["smoothed"], dtype=torch.float64, device=device),
            torch.tensor(sums["unsmoothed"], dtype=torch.float64, device=device),
            sums["tgt_tokens"],
        )

    @classmethod
    def empty(cls, device: torch.device) -> "Window":
        """The window before its first step."""
        return cls.restored({"smoothed": 0.0, "unsmoothed": 0.0, "tgt_tokens": 0}, device)

    def add(self, progress: StepResult) -> None:
        """Count one more step."""
        self.smoothed += progress.losses.loss
        self.unsmoothed += progress.losses.nll_loss
        self.tgt_tokens += progress.tgt_tokens

    def gather(self, ranks: Ranks) -> None:
        """Bring all ranks' sums together on the leading one; the others start again from zero."""
        if ranks.size == 1:
            return
        sums = ranks.sum([self.smoothed.item(), self.unsmoothed.item(), self.tgt_tokens])
        names = ("smoothed", "unsmoothed", "tgt_tokens")
        gathered = dict(zip(names, sums if ranks.is_main else [0.0] * 3, strict=True))
        restored = Window.restored(gathered, self.smoothed.device)
        self.smoothed, self.unsmoothed = restored.smoothed, restored.unsmoothed
        self.tgt_tokens = int(gathered["tgt_tokens"])

    def state(self) -> dict[str, Any]:
        """The sums, for a checkpoint."""
        return {
            "smoothed": self.smoothed.item(),
            "unsmoothed": self.unsmoothed.item(),
            "tgt_tokens": self.tgt_tokens,
        }

"""The time of a training's updates. Any program's environment can import this file."""

import argparse
import time
from typing import Any

WARM_UP = 5
"""Updates before the clock starts: the first ones allocate memory and pick kernels."""


class Stopwatch:
    """Counts what is trained on from the end of the warm-up to the last update's end.

    The input pipeline counts: a batch is made between two updates.
    """

    def __init__(self) -> None:
        self.updates = 0
        self.started = self.ended = 0.0
        self.src_tokens = self.tgt_tokens = 0

    def update_done(self, src_tokens: int, tgt_tokens: int) -> None:
        """Take an update's end down.

        Args:
            src_tokens: source tokens of the update, end marks counted, padding not.
            tgt_tokens: target tokens to predict, likewise.
        """
        self.updates += 1
        self.ended = time.perf_counter()
        if self.updates == WARM_UP:
            self.started = self.ended
        if self.updates > WARM_UP:
            self.src_tokens += src_tokens
            self.tgt_tokens += tgt_tokens

    def result(self, validation_loss: float) -> dict[str, Any]:
        """What a contestant prints; at least one update was timed.

        Args:
            validation_loss: after the last update, mean negative log-likelihood of a target token.
        """
        seconds = self.ended - self.started
        return {
            "tgt_tokens_per_second": self.tgt_tokens / seconds,
            "src_tokens_per_second": self.src_tokens / seconds,
            "tgt_tokens_per_update": self.tgt_tokens / (self.updates - WARM_UP),
            "validation_loss": validation_loss,
            "updates": self.updates,
            "seconds": seconds,
        }


def updates_argument(text: str) -> int:
    """The number of updates, from a command line."""
    if not text.isdecimal() or int(text) <= WARM_UP:
        raise argparse.ArgumentTypeError(f"expected a number above {WARM_UP}, found '{text}'")
    return int(text)

"""What ``train`` shows: a bar where a person watches, lines where a file is written."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from transformer_cli.cli.display import bar, log

if TYPE_CHECKING:
    from transformer_cli.training.session import Record
    from transformer_cli.training.trainer import StepResult

_REFRESH_SECONDS = 0.5


class TrainingDisplay:
    """Follows a training on stderr.

    Args:
        total_steps: the last optimizer step.
        step: the step that training goes on from.
    """

    def __init__(self, total_steps: int, step: int) -> None:
        self._total_steps = total_steps
        self._bar = bar(total_steps, "", "step", initial=step)
        # Without steps a second, which tokens a second make up for, it fits 80 columns.
        self._bar.bar_format = (
            "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
        )
        self._tgt_tokens = 0
        self._chunks = 1
        self._refreshed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()

    def step(self, progress: "StepResult") -> None:
        """Move the bar; look at the loss now and then, since looking waits for a GPU."""
        from transformer_cli.model.perplexity import perplexity

        if progress.skipped:
            log(f"step {progress.step}: not a finite number in its loss or gradient; left out")
        if progress.chunks != self._chunks:
            self._chunks = progress.chunks
            log(
                f"step {progress.step}: out of memory; from here on each batch is split into "
                f"{progress.chunks} chunks, and a step has as many tokens as before"
            )
        self._bar.update()
        self._tgt_tokens += progress.tgt_tokens
        elapsed = time.monotonic() - self._refreshed
        if self._bar.disable or elapsed < _REFRESH_SECONDS or not progress.tgt_tokens:
            return
        self._bar.set_postfix_str(
            f"loss {progress.losses.loss.item() / progress.tgt_tokens:.2f}, "
            f"ppl {perplexity(progress.losses.nll_loss.item() / progress.tgt_tokens):.1f}, "
            f"lr {progress.learning_rate:.1e}, {self._tgt_tokens / elapsed:.0f} tok/s",
            refresh=False,
        )
        self._tgt_tokens, self._refreshed = 0, time.monotonic()

    def record(self, record: "Record") -> None:
        """Write a line for a validation, and in a log file for a training record too."""
        values = record.values
        where = f"step {values['step']}/{self._total_steps}, epoch {values['epoch']}"
        if record.kind == "validation":
            mark = " (best)" if values["best"] else ""
            self._tgt_tokens, self._refreshed = 0, time.monotonic()  # its time is not training's
            log(
                f"{where}: validation loss {values['loss']:.4f}, "
                f"perplexity {values['perplexity']:.3f}, BLEU {values['bleu']:.2f}, "
                f"lowercased {values['bleu_lc']:.2f}{mark}, {values['seconds']:.0f} s"
            )
        elif not sys.stderr.isatty():
            log(
                f"{where}: loss {values['loss']:.4f}, perplexity {values['perplexity']:.3f}, "
                f"rate {values['learning_rate']:.3e}, {values['seconds']:.0f} s"
            )

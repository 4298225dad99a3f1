"""Show a training on stderr: a progress bar on a terminal, lines in a log file."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from transformer_cli.cli.display import bar, log
from transformer_cli.metrics import METRICS
from transformer_cli.training.units import duration

if TYPE_CHECKING:
    from transformer_cli.training.session import Record
    from transformer_cli.training.trainer import StepResult

_REFRESH_SECONDS = 0.5


class TrainingDisplay:
    """Shows a training on stderr.

    Args:
        total_steps: the last optimizer step.
        step: the step that training starts from.
    """

    def __init__(self, total_steps: int, step: int) -> None:
        self._total_steps = total_steps
        self._bar = bar(total_steps, "", "step", initial=step)
        # Tokens per second replace steps per second, so that the bar fits 80 columns.
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

    def show_step(self, step: "StepResult") -> None:
        """Advance the bar; read the loss now and then only, since that waits for the GPU."""
        for skipped in step.skipped:
            log(f"step {skipped}: not a finite number in its loss or gradient; left out")
        if step.chunks != self._chunks:
            self._chunks = step.chunks
            log(
                f"step {step.step}: out of memory; from here on each batch is split into "
                f"{step.chunks} chunks, and a step has as many tokens as before"
            )
        self._bar.update()
        self._tgt_tokens += step.tgt_tokens
        elapsed = time.monotonic() - self._refreshed
        if self._bar.disable or elapsed < _REFRESH_SECONDS or not step.is_finite:
            return
        self._bar.set_postfix_str(
            f"loss {step.losses.loss.item() / step.tgt_tokens:.2f}, "
            f"norm {step.gradient_norm.item():.2f}, "
            f"lr {step.learning_rate:.1e}, {self._tgt_tokens / elapsed:.0f} tok/s",
            refresh=False,
        )
        self._tgt_tokens, self._refreshed = 0, time.monotonic()

    def show_record(self, record: "Record") -> None:
        """Write a line for a validation, and in a log file for a training record too."""
        values = record.values
        where = f"step {values['step']}/{self._total_steps}, epoch {values['epoch']}"
        if record.kind == "validation":
            self._tgt_tokens, self._refreshed = (
                0,
                time.monotonic(),
            )  # validation time does not count
            log(
                f"{where}: validation loss {values['loss']:.4f}, "
                f"perplexity {values['perplexity']:.3f}, {_describe_scores(values)}, "
                f"{values['seconds']:.0f} s"
            )
            if not self._bar.disable:
                for sample in values["samples"]:
                    for label, line in sample.items():
                        log(f"  {label:<11}  {line}")
        elif self._bar.disable:
            log(
                f"{where}: loss {values['loss']:.4f}, perplexity {values['perplexity']:.3f}, "
                f"rate {values['learning_rate']:.3e}, {_describe_pace(values)}"
            )


def _describe_pace(values: Mapping[str, Any]) -> str:
    norm = "not finite" if values["grad_norm"] is None else f"{values['grad_norm']:.2f}"
    left = f", {duration(values['eta_seconds'])} left" if values["eta_seconds"] else ""
    return (
        f"gradient norm {norm}, {values['tokens_per_second']:,} tok/s, {values['seconds']:.0f} s"
        f"{left}"
    )


def _describe_scores(values: dict[str, Any]) -> str:
    """Return a validation's scores, and whether it is the best so far."""
    shown = [
        metric
        for metric in METRICS.values()
        if metric.build and metric.name in values
        if metric.is_first or metric.name == values["select"]
    ]
    text = ", ".join(
        f"{metric.short or metric.label} {values[metric.name]:.2f}" for metric in shown
    )
    if not values["best"]:
        return text
    return f"{text} (best by loss)" if values["select"] == "loss" else f"{text} (best)"

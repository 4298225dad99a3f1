"""Whether a step on the device has the loss and the gradients of the CPU in float32."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import (
    BASE_MODEL,
    SMALL_MODEL,
    Setting,
    attempt,
    model_name,
    on_off,
    precision_name,
)
from transformer_cli.data.token_arrays import EncodedText, plan_epoch

_NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")
_STEPS = 5


@dataclass(frozen=True)
class _Trace:
    losses: list[float]
    moments: dict[str, Tensor]
    """Adam's first moments after the first step: the gradients, times 1 - beta."""


def measure(setting: Setting) -> Iterator[Row]:
    """Yield relative errors of loss and gradients, by model, precision and graphs."""
    corpus = load_corpus(setting)
    batch_tokens = 256 if setting.small else 2560
    plan = plan_epoch(corpus.text.lengths, batch_tokens, seed=1, epoch=0)
    text = corpus.text.take(max(plan, key=len))
    on_cpu = replace(corpus, setting=replace(setting, device=torch.device("cpu")))
    for model in (SMALL_MODEL, BASE_MODEL):
        reference = _train(on_cpu, model, text, torch.float32, False)
        for precision in (torch.float32, torch.bfloat16):
            for graphs in (False, True):
                label: Row = {
                    "model": model_name(model),
                    "precision": precision_name(precision),
                    "graphs": on_off(graphs),
                }
                found = _errors(corpus, model, text, precision, graphs, reference)
                yield from attempt(label, found)


def _errors(
    corpus: Corpus,
    model: str,
    text: EncodedText,
    precision: torch.dtype,
    graphs: bool,
    reference: _Trace,
) -> Iterator[Row]:
    trace = _train(corpus, model, text, precision, graphs)
    names = list(reference.moments)
    by_name = {
        name: _relative_error([trace.moments[name]], [reference.moments[name]]) for name in names
    }
    # A key's bias moves all scores of a query alike, so its gradient is 0 but for rounding.
    worst = max(
        (name for name in names if not name.endswith("key.bias")), key=lambda name: by_name[name]
    )
    of_all = _relative_error(
        [trace.moments[name] for name in names], [reference.moments[name] for name in names]
    )
    ratios = np.array(trace.losses) / np.array(reference.losses) - 1.0
    yield {
        "loss": abs(float(ratios[0])),
        "gradients": of_all,
        "worst gradient": by_name[worst],
        "of": worst.removeprefix("exp_avg."),
        f"loss of step {_STEPS}": abs(float(ratios[-1])),
    }


def _train(
    corpus: Corpus, model: str, text: EncodedText, precision: torch.dtype, graphs: bool
) -> _Trace:
    # One batch is the epoch, so its shape comes again: from the second step on it is a graph's.
    batch_tokens = int(np.maximum(*text.lengths).max() + 1) * len(text)
    config = corpus.config(model, batch_tokens, _STEPS, "training.clip_norm=null", *_NO_DROPOUT)
    trainer = corpus.trainer(config, text, precision, graphs)
    losses, moments = [], {}
    for step in trainer.steps():
        losses.append(step.losses.loss.item() / step.tgt_tokens)
        if step.step == 1:
            # A copy: on a CPU, .cpu() is the tensor that later steps change.
            moments = {
                name: moment.detach().to("cpu", copy=True)
                for name, moment in trainer.optimizer.state().items()
                if name.startswith("exp_avg.")
            }
    return _Trace(losses, moments)


def _relative_error(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return ‖found - expected‖ / ‖expected‖ in float64, over all of them; NaN stays NaN."""
    difference = sum(
        (a.double() - b.double()).square().sum() for a, b in zip(found, expected, strict=True)
    )
    norm = sum(each.double().square().sum() for each in expected)
    return float((torch.as_tensor(difference) / torch.as_tensor(norm)).sqrt())

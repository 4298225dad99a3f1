"""Whether a run that is saved and resumed has the weights of one that is not."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import SMALL_MODEL, Setting, attempt, on_off, precision_name
from transformer_cli.config.schema import Config
from transformer_cli.data.token_arrays import EncodedText
from transformer_cli.model.transformer import load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.training.trainer import Trainer

_TOKENIZER = "none"  # the fingerprint that a checkpoint has to be opened with

Weights = dict[str, Tensor]


def measure(setting: Setting) -> Iterator[Row]:
    """Yield whether weights are the same bytes, by precision and graphs."""
    corpus = load_corpus(setting)
    batch_tokens = 512 if setting.small else 2560
    steps = 6 if setting.small else 40
    text = corpus.take(3 if setting.small else 10, batch_tokens)
    config = corpus.config(SMALL_MODEL, batch_tokens, steps, f"training.max_steps={steps}")
    for precision in (torch.bfloat16, torch.float32):
        for graphs in (False, True):
            label: Row = {"precision": precision_name(precision), "graphs": on_off(graphs)}
            yield from attempt(label, _compare(corpus, config, text, precision, graphs))


def _compare(
    corpus: Corpus, config: Config, text: EncodedText, precision: torch.dtype, graphs: bool
) -> Iterator[Row]:
    def new_trainer() -> Trainer:
        return corpus.trainer(config, text, precision, graphs)

    straight, repeated = (_finish(new_trainer()) for _ in range(2))
    first, second = new_trainer(), new_trainer()
    for _ in islice(first.steps(), first.total_steps // 2):
        pass
    with TemporaryDirectory() as directory:
        _hand_over(first, second, Path(directory))
    resumed = _finish(second)
    yield {
        "steps": second.step,
        "repeated: same bytes": are_same(straight, repeated),
        "largest difference": largest_difference(straight, repeated),
        "resumed: same bytes": are_same(straight, resumed),
        "its largest difference": largest_difference(straight, resumed),
    }


def _finish(trainer: Trainer) -> Weights:
    for _ in trainer.steps():
        pass
    weights = weights_of(trainer.eval_model)
    return {name: weight.detach().cpu() for name, weight in weights.items()}


def _hand_over(first: Trainer, second: Trainer, directory: Path) -> None:
    """Save a checkpoint of one trainer and restore the other from it, as a session does."""
    path = save_checkpoint(
        directory,
        weights_of(first.eval_model),
        first.optimizer.state(),
        first.state(),
        _TOKENIZER,
    )
    checkpoint = Checkpoint.open(path, _TOKENIZER)
    load_weights(second.eval_model, checkpoint.load_weights())
    second.restore(checkpoint.load_state(), checkpoint.load_optimizer())


def are_same(one: Weights, other: Weights) -> str:
    """Return 'yes' if all weights are the same bytes, else 'no'."""
    same = all(
        torch.equal(one[name].view(torch.int32), other[name].view(torch.int32)) for name in one
    )
    return "yes" if same else "no"


def largest_difference(one: Weights, other: Weights) -> float:
    """Return the largest difference of two weights of one place, key biases left out."""
    # Their gradients are rounding errors, which Adam makes as large as any other's.
    names = [name for name in one if not name.endswith("key.bias")]
    return max(float((one[name] - other[name]).abs().max()) for name in names)

"""JoeyNMT's contestant: its data loader, model, loss and training loop, as its users run them."""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.config import load_config, parse_global_args, set_validation_args
from joeynmt.helpers import set_seed
from joeynmt.prediction import prepare
from joeynmt.training import TrainManager

from benchmarks.stopwatch import Stopwatch, updates_argument


class TimedTrainManager(TrainManager):  # type: ignore[misc]
    """JoeyNMT's training loop with a stopwatch, and without the checkpoint at its end."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.stopwatch = Stopwatch()
        self.optimizer.register_step_post_hook(self._after_update)

    def _train_step(self, batch: Batch) -> tuple[float, int]:
        self.tokens = int(batch.src_length.sum()), batch.ntokens
        result: tuple[float, int] = super()._train_step(batch)
        return result

    def _after_update(self, *_: object) -> None:
        self.stopwatch.update_done(*self.tokens)

    def _save_checkpoint(self, new_best: bool, score: float) -> None:
        pass


def main() -> None:
    """Train, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=updates_argument, required=True)
    arguments = parser.parse_args()

    settings = load_config(Path(__file__).with_name("joeynmt.yaml"))
    settings["training"]["updates"] = arguments.updates
    with TemporaryDirectory() as model_dir:
        settings["model_dir"] = model_dir
        trainer, dev_data = train(settings)
    print(json.dumps(trainer.stopwatch.result(validation_loss(trainer, dev_data))))


def train(settings: dict[str, Any]) -> tuple[TimedTrainManager, Any]:
    """What ``joeynmt.training.train`` does, with our train manager.

    Returns:
        the manager after its last update, and the validation data.
    """
    config = parse_global_args(settings, rank=0, mode="train")
    set_seed(config.seed)  # JoeyNMT draws weights before it sets its seed
    model, train_data, dev_data, _ = prepare(config, rank=0, mode="train")
    trainer = TimedTrainManager(
        rank=0,
        model=model,
        model_dir=config.model_dir,
        device=config.device,
        n_gpu=config.n_gpu,
        num_workers=config.num_workers,
        autocast=config.autocast,
        seed=config.seed,
        train_args=config.train,
        dev_args=set_validation_args(config.test),
    )
    trainer.train_and_validate(train_data=train_data, valid_data=dev_data)
    return trainer, dev_data


@torch.inference_mode()
def validation_loss(trainer: TimedTrainManager, dev_data: Any) -> float:
    """Mean negative log-likelihood of a target token, without smoothing, by JoeyNMT's own loss."""
    model = trainer.model
    model.eval()
    model.loss_function = ("crossentropy", 0.0)
    batches = dev_data.make_iter(
        batch_size=trainer.dev_cfg.batch_size,
        batch_type=trainer.dev_cfg.batch_type,
        eos_index=model.eos_index,
        pad_index=model.pad_index,
    )
    loss, tgt_tokens = 0.0, 0
    for batch in batches:
        batch.sort_by_src_length()
        batch_loss, *_ = model(return_type="loss", **vars(batch))
        loss += batch_loss.item()
        tgt_tokens += batch.ntokens
    return loss / tgt_tokens


if __name__ == "__main__":
    main()

"""This project's contestant: its own trainer, in the precision asked for."""

import argparse
import json

import torch

from benchmarks.flops import training_flops
from benchmarks.stopwatch import WARM_UP, Stopwatch, updates_argument
from benchmarks.task import read_ids, settings, vocab_size
from transformer_cli.data.shards import plan_epoch
from transformer_cli.evaluation.scoring import mean_loss
from transformer_cli.model.transformer import build_model
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.trainer import Trainer


def main() -> None:
    """Train, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("precision", choices=("float32", "bfloat16"))
    parser.add_argument("--updates", type=updates_argument, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()

    config = settings([f"training.max_steps={arguments.updates}", *arguments.set])
    text = read_ids("train")
    src_lengths, tgt_lengths = text.src.lengths + 1, text.tgt.lengths + 1
    plan = plan_epoch(text.lengths, config.training.batch_tokens, config.seed, epoch=0)
    if arguments.updates > len(plan):
        parser.error(f"--updates: the first epoch has {len(plan)}, found {arguments.updates}")
    vocab = vocab_size(config)
    model = build_model(config.model, vocab, vocab, PAD_ID, config.seed)
    precision = torch.bfloat16 if arguments.precision == "bfloat16" else torch.float32

    stopwatch = Stopwatch()
    flops = 0.0
    trainer = Trainer(model, text, config, precision)
    for progress, pairs in zip(trainer.steps(), plan, strict=False):
        stopwatch.update_done(int(src_lengths[pairs].sum()), progress.tgt_tokens)
        if progress.step > WARM_UP:
            flops += training_flops(
                config.model, vocab, src_lengths[pairs].tolist(), tgt_lengths[pairs].tolist()
            )
    model.eval()
    loss = mean_loss(model, read_ids("val"), config.training.batch_tokens, torch.float32)
    result = stopwatch.result(loss)
    print(json.dumps(result | {"useful_gflops_per_second": flops / result["seconds"] / 1e9}))


if __name__ == "__main__":
    main()

"""The process group of several GPUs, with one process in it."""

import socket
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import SMALL_MODEL, Setting, attempt
from transformer_cli.base.ranks import Ranks


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the backends, an all_reduce on each, and how steps over them went."""
    device = torch.device("cuda", 0) if setting.device.type == "cuda" else setting.device
    group = _connect(device)
    yield {"group": "default", "backend": dist.get_backend(), "sum of one": _sum(device)}
    yield {
        "group": "for the CPU",
        "backend": dist.get_backend(group),
        "sum of one": _sum("cpu", group),
    }
    dist.monitored_barrier(group)
    corpus = load_corpus(setting)
    yield from attempt({"group": "of the steps"}, _train(corpus, group))
    dist.destroy_process_group()


def _connect(device: torch.device) -> Any:
    """Do what ``Ranks.init`` does for several processes; return the group for the CPU."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=0,
        world_size=1,
        device_id=device if on_gpu else None,
    )
    return dist.new_group(backend="gloo")


def _sum(device: torch.device | str, group: Any = None) -> float:
    value = torch.ones(1, device=device)
    dist.all_reduce(value, group=group)
    return value.item()


def _train(corpus: Corpus, group: Any) -> Iterator[Row]:
    # Two are claimed, so that the trainer takes its way of several; the gradients are then those
    # of twice the loss, which clipping makes up for.
    ranks = Ranks(rank=0, size=2, group=group)
    batch_tokens = 512 if corpus.setting.small else 2560
    config = corpus.config(SMALL_MODEL, batch_tokens, 3)
    batches = 4 if corpus.setting.small else 20
    trainer = corpus.trainer(config, corpus.take(batches, batch_tokens), ranks=ranks)
    losses = [step.losses.loss.item() / step.tgt_tokens for step in trainer.steps()]
    yield {"steps": len(losses), "first loss a token": losses[0], "last": losses[-1]}

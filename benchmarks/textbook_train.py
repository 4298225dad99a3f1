"""The textbook's contestant, trained as tutorials do it.

The loss is KLDivLoss against a dense smoothed target, and batches hold sentences in random order.
"""

import argparse
import json
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.stopwatch import Stopwatch, updates_argument
from benchmarks.task import read_ids, settings, vocab_size
from benchmarks.textbook import Transformer
from transformer_cli.config.schema import Config, NoamSchedule
from transformer_cli.data.store import EncodedText
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID


def smoothed_targets(tgt_out: Tensor, vocab: int, smoothing: float) -> Tensor:
    """The dense target distributions, (token, vocab); padding's rows are zero."""
    targets = torch.full((tgt_out.numel(), vocab), smoothing / (vocab - 2))
    targets.scatter_(1, tgt_out.reshape(-1, 1), 1.0 - smoothing)
    targets[:, PAD_ID] = 0.0
    targets[tgt_out.flatten() == PAD_ID] = 0.0
    return targets


Batch = tuple[Tensor, Tensor]
"""Source and target rows with their marks, padded."""


def batches(text: EncodedText, budget: int, order: np.ndarray) -> Iterator[Batch]:
    """Sentences in ``order``, at most ``budget`` tokens a side with padding."""
    rows: list[tuple[Tensor, Tensor]] = []
    longest = 0
    for index in order:
        src = torch.tensor([*text.src[index].tolist(), EOS_ID])
        tgt = torch.tensor([BOS_ID, *text.tgt[index].tolist(), EOS_ID])
        longest = max(longest, len(src), len(tgt) - 1)
        if rows and longest * (len(rows) + 1) > budget:
            yield collate(rows)
            rows, longest = [], max(len(src), len(tgt) - 1)
        rows.append((src, tgt))
    yield collate(rows)


def collate(rows: list[tuple[Tensor, Tensor]]) -> Batch:
    """Pad both sides."""
    src, tgt = (
        nn.utils.rnn.pad_sequence(list(side), batch_first=True, padding_value=PAD_ID)
        for side in zip(*rows, strict=True)
    )
    return src, tgt


def train(model: Transformer, text: EncodedText, config: Config, updates: int) -> Stopwatch:
    """Take ``updates`` optimizer steps."""
    training, d_model = config.training, config.model.d_model
    noam = training.schedule
    assert isinstance(noam, NoamSchedule)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=training.betas, eps=training.eps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda done: (
            noam.factor * d_model**-0.5 * min((done + 1) ** -0.5, (done + 1) * noam.warmup**-1.5)
        ),
    )
    criterion = nn.KLDivLoss(reduction="sum")
    order = np.random.default_rng(config.seed).permutation(len(text))
    stopwatch = Stopwatch()
    model.train()
    for src, tgt in batches(text, training.batch_tokens, order):
        tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
        tgt_tokens = int((tgt_out != PAD_ID).sum())
        log_probabilities = model(src, tgt_in)
        targets = smoothed_targets(tgt_out, log_probabilities.size(2), training.label_smoothing)
        loss = criterion(log_probabilities.flatten(0, 1), targets) / tgt_tokens
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm or math.inf)
        optimizer.step()
        schedule.step()
        stopwatch.update_done(int((src != PAD_ID).sum()), tgt_tokens)
        if stopwatch.updates == updates:
            break
    return stopwatch


@torch.no_grad()
def validation_loss(model: Transformer, text: EncodedText, budget: int) -> float:
    """Mean negative log-likelihood of a target token, without smoothing."""
    model.eval()
    loss, tgt_tokens = 0.0, 0
    for src, tgt in batches(text, budget, np.arange(len(text))):
        log_probabilities = model(src, tgt[:, :-1])
        tgt_out = tgt[:, 1:].flatten()
        loss += F.nll_loss(
            log_probabilities.flatten(0, 1), tgt_out, ignore_index=PAD_ID, reduction="sum"
        ).item()
        tgt_tokens += int((tgt_out != PAD_ID).sum())
    return loss / tgt_tokens


def main() -> None:
    """Train, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=updates_argument, required=True)
    arguments = parser.parse_args()

    config = settings()
    torch.manual_seed(config.seed)
    model = Transformer(config.model, vocab_size(config))
    stopwatch = train(model, read_ids("train"), config, arguments.updates)
    loss = validation_loss(model, read_ids("val"), config.training.batch_tokens)
    print(json.dumps(stopwatch.result(loss)))


if __name__ == "__main__":
    main()

"""Score given translations with torch."""

from collections.abc import Sequence

import numpy as np
import torch

from transformer_cli.inference.search import (
    TorchEngine,
    cut_longest_first,
    pad,
    split_when_out_of_memory,
)
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID


@torch.inference_mode()
def score_tokens(
    engine: TorchEngine,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int,
) -> list[list[float]]:
    """Return the log-probabilities of each target's tokens, EOS included, given its source.

    Args:
        engine: the engine with the model.
        sources: token ids, each with EOS.
        targets: token ids without BOS and EOS.
        batch_tokens: the maximum number of source tokens, and of target tokens, in a padded batch.
    """
    scores: list[list[float]] = [[] for _ in targets]
    lengths = np.array([max(map(len, pair)) + 1 for pair in zip(sources, targets, strict=True)])
    order = np.argsort(-lengths, kind="stable")

    def score_rows(batch: np.ndarray) -> None:
        src = pad([sources[index] for index in batch], PAD_ID).to(engine.device)
        tgt = pad([[BOS_ID, *targets[index], EOS_ID] for index in batch], PAD_ID)
        tgt = tgt.to(engine.device)
        logits = engine.model.logits(engine.model.hidden_states(src, tgt[:, :-1]))
        of_tokens = logits.log_softmax(dim=-1, dtype=torch.float32)
        of_targets = of_tokens.gather(2, tgt[:, 1:, None])[..., 0]
        for index, row in zip(batch, of_targets.tolist(), strict=True):
            scores[index] = row[: len(targets[index]) + 1]

    with autocast(engine.device, engine.precision), pack_weights(engine.model):
        for batch in cut_longest_first(order, lengths, batch_tokens):
            split_when_out_of_memory(score_rows, batch)
    return scores

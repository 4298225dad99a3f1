"""Score given translations with torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transformer_cli.inference.search import cut_longest_first, pad, split_when_out_of_memory
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID


@torch.inference_mode()
def score_tokens(
    translator: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[list[float]]:
    """Return the log-probabilities of each target's tokens, EOS included, given its source.

    Sources have EOS, and targets neither BOS nor EOS.
    """
    engine, batch_tokens = translator.engine, translator.decoding.batch_tokens
    scores: list[list[float]] = [[] for _ in targets]
    lengths = np.array([max(map(len, pair)) + 1 for pair in zip(sources, targets, strict=True)])
    order = np.argsort(-lengths, kind="stable")

    def score_rows(batch: np.ndarray) -> None:
        src = pad([sources[index] for index in batch], PAD_ID).to(engine.device)
        rows = [[BOS_ID, *targets[index], EOS_ID] for index in batch]
        tgt = pad(rows, PAD_ID).to(engine.device)
        logits = engine.model.logits(engine.model.hidden_states(src, tgt[:, :-1]))
        of_tokens = logits.log_softmax(dim=-1, dtype=torch.float32)
        of_targets = of_tokens.gather(2, tgt[:, 1:, None])[..., 0].tolist()
        for index, row in zip(batch, of_targets, strict=True):
            scores[index] = row[: len(targets[index]) + 1]

    with autocast(engine.device, engine.precision), pack_weights(engine.model):
        for batch in cut_longest_first(order, lengths, batch_tokens):
            split_when_out_of_memory(score_rows, batch)
    return scores

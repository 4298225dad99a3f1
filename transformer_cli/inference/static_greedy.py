"""Greedy search in buffers of fixed shapes."""

import torch
from torch import Tensor

from transformer_cli.inference.hypotheses import Hypothesis
from transformer_cli.inference.search import truncate_at_eos
from transformer_cli.inference.static_search import Bucket, StaticSearch
from transformer_cli.model.transformer import Transformer


class StaticGreedySearch(StaticSearch):
    """Records the token of each step, and its log-probability."""

    def __init__(self, model: Transformer, bucket: Bucket) -> None:
        super().__init__(model, bucket)
        # What a step finds is at the position after its own, where the next step looks for it.
        shape = (bucket.capacity + 1, bucket.rows)
        self._tokens = torch.full(shape, bucket.options.bos_id, device=self._src.device)
        self._log_probs = torch.zeros(shape, device=self._src.device)

    def step(self) -> None:
        """Write the most likely token of each row."""
        position = self._state.position  # advances in place
        tokens = self._tokens.index_select(0, position).t()
        log_probs, found = self._find_continuations(tokens, _find_best)
        self._tokens.index_copy_(0, position, found.view(1, -1))
        self._log_probs.index_copy_(0, position, log_probs.view(1, -1))
        self._live &= (found.flatten() != self._eos_id) & (self._limits > position)

    def _read(self, limits: list[int], steps: int) -> list[list[Hypothesis]]:
        written = slice(1, steps + 1), slice(len(limits))
        totals = self._log_probs[written].cpu().numpy().cumsum(axis=0).T.tolist()
        hypotheses = []
        for tokens, total, limit in zip(
            self._tokens[written].t().tolist(), totals, limits, strict=True
        ):
            ids = truncate_at_eos(tokens[:limit], self._eos_id)
            last = min(len(ids), limit - 1)  # EOS, unless the limit was before it
            hypotheses.append([Hypothesis(ids, total[last])])
        return hypotheses


def _find_best(x: Tensor) -> tuple[Tensor, Tensor]:
    values, columns = x.max(dim=1, keepdim=True)
    return values, columns

"""Beam search in buffers of fixed shapes."""

from functools import partial

import numpy as np
import torch

from transformer_cli.inference.hypotheses import Hypothesis, rank_hypotheses
from transformer_cli.inference.search import top_k
from transformer_cli.inference.static_search import Bucket, StaticSearch
from transformer_cli.model.transformer import Transformer


class StaticBeamSearch(StaticSearch):
    """Records the candidates of each step; hypotheses are made of them on the host, in the end."""

    def __init__(self, model: Transformer, bucket: Bucket) -> None:
        super().__init__(model, bucket)
        device, beam_size = self._src.device, self._beam_size
        self._tokens = torch.full((bucket.rows, beam_size), bucket.options.bos_id, device=device)
        self._totals = torch.zeros((bucket.rows, beam_size), device=device)
        self._num_ended = torch.zeros(bucket.rows, dtype=torch.int64, device=device)
        # 2 x beam: each hypothesis has one EOS, so at least beam_size candidates are no EOS.
        self._count = min(2 * beam_size, model.tgt_size)
        self._num_candidates = min(2 * beam_size, beam_size * self._count)
        self._rank = partial(top_k, count=self._count)
        shape = (bucket.capacity + 1, bucket.rows, self._num_candidates)
        self._candidates = (
            torch.zeros(shape, device=device),
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.zeros(shape, dtype=torch.int64, device=device),
        )
        """By position: totals, descending; tokens; and the slots that they continue."""

    def start(self) -> None:
        """Encode the sources and begin with one hypothesis each: copies would fill the beam."""
        super().start()
        self._tokens.fill_(self.bucket.options.bos_id)
        self._totals.fill_(float("-inf"))
        self._totals[:, 0].zero_()
        self._num_ended.zero_()

    def step(self) -> None:
        """Extend all hypotheses, and keep the best that do not end."""
        position, size = self._state.position, self._beam_size  # the position advances in place
        log_probs, ids = self._find_continuations(self._tokens, self._rank)
        candidates = (self._totals[:, :, None] + log_probs).flatten(1)
        totals, flat = candidates.topk(self._num_candidates, dim=1)
        tokens, parents = ids.flatten(1).gather(1, flat), flat // self._count
        for buffer, found in zip(self._candidates, (totals, tokens, parents), strict=True):
            buffer.index_copy_(0, position, found[None])
        is_eos = tokens == self._eos_id
        ends = is_eos[:, :size] & (totals[:, :size] > float("-inf"))
        self._num_ended += ends.sum(dim=1)
        self._live.copy_((self._num_ended < size) & (self._limits > position))
        # Stable, so that ties stay in order, as where candidates are read.
        totals = totals.masked_fill(is_eos, float("-inf"))
        totals, active = (
            each[:, :size] for each in totals.sort(dim=1, stable=True, descending=True)
        )
        self._totals.copy_(totals)
        self._tokens.copy_(tokens.gather(1, active))
        self._state.reorder(parents.gather(1, active))

    def _read(self, limits: list[int], steps: int) -> list[list[Hypothesis]]:
        totals, tokens, parents = (
            each[1 : steps + 1, : len(limits)].cpu().numpy() for each in self._candidates
        )
        candidates = _Candidates(totals, tokens, parents, self._eos_id, self._beam_size)
        alpha = self.bucket.options.length_penalty
        return [rank_hypotheses(each, alpha) for each in candidates.find_finished(limits)]


class _Candidates:
    """Candidates of all steps, on the host.

    Args:
        totals: (step, row, candidate), descending.
        tokens: of each.
        parents: slot in the beam before the step.
        eos_id: candidates with this token have ended.
        beam_size: so many of the others, the best, were the beam after the step.
    """

    def __init__(
        self,
        totals: np.ndarray,
        tokens: np.ndarray,
        parents: np.ndarray,
        eos_id: int,
        beam_size: int,
    ) -> None:
        self._totals = totals
        self._parents = parents
        self._beam_size = beam_size
        is_eos = tokens == eos_id
        self._ends = (is_eos & (totals > -np.inf))[:, :, :beam_size]
        totals = np.where(is_eos, -np.inf, totals)
        active = np.argsort(-totals, axis=2, kind="stable")[:, :, :beam_size]
        self._beam_totals, self._beam_tokens, self._beam_parents = (
            np.take_along_axis(each, active, axis=2).tolist() for each in (totals, tokens, parents)
        )

    def find_finished(self, limits: list[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row in the order in which they ended: at least one."""
        finished: list[list[Hypothesis]] = [[] for _ in limits]
        ends = np.argwhere(self._ends.transpose(1, 0, 2)).tolist()  # row by row
        for row, step, place in ends:
            if step < limits[row] and len(finished[row]) < self._beam_size:
                ids = self._trace(row, step, int(self._parents[step, row, place]))
                finished[row].append(Hypothesis(ids, float(self._totals[step, row, place])))
        for row, limit in enumerate(limits):
            if not finished[row]:
                total = self._beam_totals[limit - 1][row][0]
                finished[row].append(Hypothesis(self._trace(row, limit, 0), total))
        return finished

    def _trace(self, row: int, length: int, slot: int) -> list[int]:
        """Return what the hypothesis in a slot had written after ``length`` steps."""
        ids = []
        for step in reversed(range(length)):
            ids.append(self._beam_tokens[step][row][slot])
            slot = self._beam_parents[step][row][slot]
        return ids[::-1]

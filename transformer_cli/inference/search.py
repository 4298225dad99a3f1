"""Greedy and beam search over token ids.

A row of greedy search ends at EOS, or at its maximum length. Where a sentence's beam ends is said
by ``has_ended`` in ``_beam``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.inference.engine import Hypothesis, SearchOptions
from transformer_cli.model.transformer import Transformer

NOT_FORCED = -1
"""Right padding of ``prefixes``: no token is forced there."""


@torch.inference_mode()
def search(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses for each row of ``src`` as they end: at least one, at most the beam.

    Args:
        model: in evaluation mode.
        src: padded source rows.
        max_lengths: maximum tokens of each row's output, at least 1; search stops there.
        options: kind of search.
        prefixes: what each row's outputs begin with, ``NOT_FORCED`` from its end on; no EOS.
            Their tokens may be banned ones, and count in lengths and log-probabilities.
    """
    device = next(model.parameters()).device
    src, max_lengths = src.to(device), max_lengths.to(device)
    prefixes = None if prefixes is None else prefixes.to(src.device)
    if options.beam_size == 1:
        return [[one] for one in _greedy(model, src, max_lengths, options, prefixes)]
    return _beam(model, src, max_lengths, options, prefixes)


Rank = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Chooses some elements of each row, best first: returns them and their columns.

Rows are log-probabilities of a sentence's next tokens; the second argument says which sentence.
"""

# Logits computed at a time: on a CPU, few enough that top-k still finds them in its cache.
_LOGITS_AT_A_TIME = {"cpu": 1 << 21, "cuda": 1 << 28, "mps": 1 << 25}
_GROUP = 64  # columns per group in top_k
# Finished sentences are removed only at or below this share of live ones: removal copies caches.
_LIVE_SHARE = 0.8


@dataclass(frozen=True)
class AllowedTokens:
    """Leaves the tokens that may be written: forced ones, or else what is not banned."""

    banned: Int[Tensor, " token"]
    prefixes: Int[Tensor, "batch prefix"] | None = None

    @classmethod
    def of(
        cls,
        options: SearchOptions,
        prefixes: Int[Tensor, "batch prefix"] | None,
        device: torch.device,
    ) -> "AllowedTokens":
        """Return those of a batch of sources."""
        banned = torch.tensor(options.banned_ids, dtype=torch.int64, device=device)
        return cls(banned, prefixes)

    def leave(
        self,
        log_probabilities: Float[Tensor, "row token"],
        sentences: Int[Tensor, " row"],
        place: int,
    ) -> None:
        """Set the log-probabilities of all other tokens to -inf, in place.

        Each row is a hypothesis of one of the ``sentences``, whose token at ``place`` is next.
        """
        forced, of_forced = None, None
        if self.prefixes is not None and place < self.prefixes.size(1):
            forced = self.prefixes[sentences, place, None]
            of_forced = log_probabilities.gather(1, forced.clamp(min=0))
        log_probabilities.index_fill_(1, self.banned, float("-inf"))
        if forced is not None and of_forced is not None:
            is_forced, tokens = forced != NOT_FORCED, forced.clamp(min=0)
            log_probabilities.masked_fill_(is_forced, float("-inf"))
            of_first = log_probabilities.gather(1, tokens)  # where none is forced, as it was
            log_probabilities.scatter_(1, tokens, of_forced.where(is_forced, of_first))


def find_continuations(
    model: Transformer,
    tokens: Int[Tensor, "batch hypothesis"],
    place: int,
    state: Any,
    allowed: AllowedTokens,
    rank: Rank,
    sentences: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch hypothesis count"], Int[Tensor, "batch hypothesis count"]]:
    """Return log-probabilities and ids of each hypothesis' next tokens that ``rank`` finds.

    ``tokens`` are the last ones, and ``place`` is that of the next.
    """
    hidden_states = model.step(tokens, state).flatten(0, 1)
    rows = max(1, _LOGITS_AT_A_TIME[hidden_states.device.type] // model.tgt_size)
    of_rows = sentences.repeat_interleave(tokens.size(1))
    best = []
    for start in range(0, len(hidden_states), rows):
        part = slice(start, start + rows)
        logits = model.logits(hidden_states[part])
        log_probabilities = logits.log_softmax(dim=1, dtype=torch.float32)
        allowed.leave(log_probabilities, of_rows[part], place)
        best.append(rank(log_probabilities, of_rows[part]))
    values, ids = (torch.cat(parts).view(*tokens.shape, -1) for parts in zip(*best, strict=True))
    return values, ids


def likeliest(count: int) -> Rank:
    """Return what chooses the ``count`` likeliest tokens."""
    return lambda log_probabilities, _: top_k(log_probabilities, count)


def top_k(
    x: Float[Tensor, "row column"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Return the ``count`` greatest elements of each row, in descending order, and their columns.

    torch.topk is slow on long rows. The top ``count`` elements lie in the ``count`` groups with the
    greatest maxima (or in the remainder), so topk runs on those only.
    """
    groups = x.size(1) // _GROUP
    if groups <= count:
        values, columns = x.topk(count, dim=1)
        return values, columns
    grouped = x[:, : groups * _GROUP].view(len(x), groups, _GROUP)
    chosen = grouped.amax(dim=2).topk(count, dim=1).indices
    starts = torch.arange(len(x), device=x.device)[:, None]
    candidates = torch.cat((grouped[starts, chosen].flatten(1), x[:, groups * _GROUP :]), dim=1)
    values, places = candidates.topk(count, dim=1)
    # Columns past the last group follow the candidates as one more group.
    chosen = F.pad(chosen, (0, 1), value=groups)
    return values, chosen.gather(1, places // _GROUP) * _GROUP + places % _GROUP


def _greedy(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
) -> list[Hypothesis]:
    """Take the most likely token at each step, or draw one, until EOS."""
    state = model.init_state(src)
    rank = likeliest(1)
    if options.sampler is not None:
        rank = options.sampler([truncate_at_eos(ids, options.eos_id) for ids in src.tolist()])
    allowed = AllowedTokens.of(options, prefixes, src.device)
    rows = torch.arange(len(src), device=src.device)  # which sentence each row is
    live = torch.ones_like(rows, dtype=torch.bool)
    written = torch.full((len(src), 1 + int(max_lengths.max())), options.eos_id, device=src.device)
    written[:, 0] = options.bos_id
    totals = torch.zeros(len(src), device=src.device)
    for length in range(1, written.size(1)):
        last = written[rows, length - 1, None]
        best, ids = find_continuations(model, last, length - 1, state, allowed, rank, rows)
        tokens = ids[:, 0, 0].where(live, options.eos_id)
        written[rows, length] = tokens
        totals[rows] += best[:, 0, 0].where(live, 0.0)
        live &= (tokens != options.eos_id) & (max_lengths[rows] > length)
        number_live = int(live.sum())
        if number_live == 0:
            break
        if number_live <= _LIVE_SHARE * len(rows):
            kept = live.nonzero()[:, 0]
            state.select(kept)
            rows, live = rows[kept], live[kept]
    return [
        Hypothesis(truncate_at_eos(ids, options.eos_id), total)
        for ids, total in zip(written[:, 1:].tolist(), totals.tolist(), strict=True)
    ]


def truncate_at_eos(ids: list[int], eos_id: int) -> list[int]:
    """Return the ids before the first EOS, all if there is none."""
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


def _beam(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
) -> list[list[Hypothesis]]:
    """Keep each sentence's ``beam_size`` likeliest hypotheses until its beam has ended.

    A hypothesis ends when its EOS is among the ``beam_size`` best continuations of all.
    """
    size, limits = options.beam_size, max_lengths.tolist()
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def has_ended(sentence: int, length: int) -> bool:
        # As many hypotheses have ended as the beam holds, or the maximum length is reached. A live
        # one might still have become better than all of them: that is not looked for. Other
        # engines and exported models end their beams so, too.
        return len(ended[sentence]) >= size or length >= limits[sentence]

    state = model.init_state(src, size)
    allowed = AllowedTokens.of(options, prefixes, src.device)
    sentences = list(range(len(limits)))  # which sentence each row of the batch is
    rows_of = torch.arange(len(limits), device=src.device)  # the same
    # Start with one hypothesis per sentence: copies of BOS would fill the beam with duplicates.
    written = torch.full((len(limits), 1, 1), options.bos_id, device=src.device)
    totals = torch.zeros((len(limits), 1), device=src.device)
    # 2 x beam: each hypothesis has one EOS, so at least beam_size candidates are no EOS.
    count = min(2 * size, model.tgt_size)
    rank = likeliest(count)
    for length in range(1, max(limits) + 1):
        last = written[:, :, -1]
        best, ids = find_continuations(model, last, length - 1, state, allowed, rank, rows_of)
        candidates = (totals[:, :, None] + best).flatten(1)
        totals, flat = candidates.topk(min(2 * size, candidates.size(1)), dim=1)
        tokens, parents = ids.flatten(1).gather(1, flat), flat // count
        is_eos = tokens == options.eos_id
        ends = is_eos[:, :size] & totals[:, :size].isfinite()
        for row, hypothesis in _iter_chosen(ends, written, parents, totals):
            if not has_ended(sentences[row], length - 1):
                ended[sentences[row]].append(hypothesis)

        live = is_eos.int().argsort(dim=1, stable=True)[:, :size]
        totals, parents, tokens = (x.gather(1, live) for x in (totals, parents, tokens))
        # With fewer tokens than the beam has places, an EOS may be among the live ones.
        totals = totals.masked_fill(tokens == options.eos_id, float("-inf"))
        state.reorder(parents)
        written = written.gather(1, parents[..., None].expand(-1, -1, length))
        written = torch.cat((written, tokens[..., None]), dim=2)
        cut = [
            row
            for row, sentence in enumerate(sentences)
            if length == limits[sentence] and not ended[sentence]
        ]
        if cut:  # the best hypothesis of each
            best_ids, best_totals = written[cut, 0, 1:].tolist(), totals[cut, 0].tolist()
            for row, of_row, total in zip(cut, best_ids, best_totals, strict=True):
                ended[sentences[row]] = [Hypothesis(of_row, total)]
        rows = [row for row, sentence in enumerate(sentences) if not has_ended(sentence, length)]
        if not rows:
            break
        if len(rows) <= _LIVE_SHARE * len(sentences):
            kept = torch.tensor(rows, device=src.device)
            state.select(kept)
            written, totals, rows_of = written[kept], totals[kept], rows_of[kept]
            sentences = rows_of.tolist()
    return ended


def _iter_chosen(
    chosen: Bool[Tensor, "batch hypothesis"], written: Tensor, parents: Tensor, totals: Tensor
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield (row, ended hypothesis) for each chosen EOS continuation, row by row, best first."""
    rows, places = chosen.nonzero().unbind(dim=1)
    ids = written[rows, parents[rows, places], 1:].tolist()
    for row, of_row, total in zip(rows.tolist(), ids, totals[rows, places].tolist(), strict=True):
        yield row, Hypothesis(of_row, total)

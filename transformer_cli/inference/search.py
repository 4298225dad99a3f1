"""Greedy and beam search over token ids."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.model.transformer import DecoderState, Transformer


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        bos_id: what every output starts from; not part of it.
        eos_id: what ends an output; not part of it.
        banned_ids: tokens that are never written.
        beam_size: hypotheses kept a sentence; 1 is greedy search.
        length_penalty: alpha of Wu et al. 2016, equation 14; 0 compares plain log-probabilities.
    """

    bos_id: int
    eos_id: int
    banned_ids: tuple[int, ...]
    beam_size: int = 1
    length_penalty: float = 0.0


@dataclass(frozen=True)
class Hypothesis:
    """One translation: its ids, without BOS and EOS, and its log-probability.

    The log-probability is the sum over its tokens and, if it ended by itself, EOS.
    """

    ids: list[int]
    log_probability: float

    def score(self, length_penalty: float) -> float:
        """Return what hypotheses of a sentence are ranked by: Wu et al. 2016, equation 14."""
        # Lengths count EOS, so that an empty output has length 1.
        penalty = math.pow((5.0 + len(self.ids) + 1.0) / 6.0, length_penalty)
        return self.log_probability / penalty


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
    """Return the hypotheses for each row of ``src``, best first: at least one, at most the beam.

    Args:
        model: in evaluation mode.
        src: padded source rows.
        max_lengths: most tokens of each row's output, at least 1; search stops there.
        options: kind of search.
        prefixes: what each row's outputs begin with, ``NOT_FORCED`` from its end on; no EOS.
            Their tokens may be banned ones, and count in lengths and log-probabilities.
    """
    if options.beam_size == 1:
        return [[found] for found in _greedy(model, src, max_lengths, options, prefixes)]
    return _beam(model, src, max_lengths, options, prefixes)


# Logits computed at a time: on a CPU, few enough that top-k still finds them in its cache.
_CHUNK_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 28, "mps": 1 << 25}
_GROUP = 64  # columns per group in _top
# Finished sentences are removed only at or below this share of live ones: removal copies caches.
_LIVE_SHARE = 0.8


def _continuations(
    model: Transformer,
    tokens: Tensor,
    state: DecoderState,
    banned: Tensor,
    count: int,
    forced: Int[Tensor, " batch"] | None = None,
) -> tuple[Float[Tensor, "batch hypothesis count"], Int[Tensor, "batch hypothesis count"]]:
    """Return log-probabilities and ids of the ``count`` likeliest next tokens of each hypothesis.

    Where a token is ``forced`` on a sentence, all others have probability 0.
    """
    hidden_states = model.step(tokens, state).flatten(0, 1)
    rows = max(1, _CHUNK_ELEMENTS[hidden_states.device.type] // model.tgt_size)
    if forced is not None:
        forced = forced.repeat_interleave(tokens.size(1))
    best = []
    for start in range(0, len(hidden_states), rows):
        part = slice(start, start + rows)
        log_probabilities = model.logits(hidden_states[part]).float().log_softmax(dim=1)
        if forced is None:
            log_probabilities.index_fill_(1, banned, float("-inf"))
        else:
            log_probabilities = _mask(forced[part], log_probabilities, banned)
        best.append(_top(log_probabilities, count))
    shape = (*tokens.shape, count)
    values, ids = (torch.cat(each).view(shape) for each in zip(*best, strict=True))
    return values, ids


def _mask(
    forced: Int[Tensor, " row"], log_probabilities: Float[Tensor, "row token"], banned: Tensor
) -> Float[Tensor, "row token"]:
    """Leave each row its forced token alone, or where there is none, all that are not banned."""
    allowed = (forced == NOT_FORCED)[:, None].expand_as(log_probabilities).index_fill(1, banned, 0)
    rows = (forced != NOT_FORCED).nonzero()[:, 0]
    allowed[rows, forced[rows]] = True
    return log_probabilities.masked_fill(~allowed, float("-inf"))


def _get_forced(
    prefixes: Tensor | None, position: int, rows: Tensor | list[int]
) -> Int[Tensor, " row"] | None:
    """Return the tokens forced on ``rows`` at a position; None: there are none on any."""
    if prefixes is None or position >= prefixes.size(1):
        return None
    return prefixes[rows, position]


def _top(
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
    """Take the most likely token at each step, until EOS."""
    state = model.init_state(src)
    banned = torch.tensor(options.banned_ids, dtype=torch.int64, device=src.device)
    rows = torch.arange(src.size(0), device=src.device)  # which sentence each row is
    live = torch.ones_like(rows, dtype=torch.bool)
    tokens = torch.full_like(rows, options.bos_id)
    written = torch.full((src.size(0), int(max_lengths.max())), options.eos_id, device=src.device)
    totals = torch.zeros(src.size(0), device=src.device)
    for position in range(written.size(1)):
        forced = _get_forced(prefixes, position, rows)
        best, found = _continuations(model, tokens[:, None], state, banned, 1, forced)
        tokens = found[:, 0, 0].where(live, options.eos_id)
        written[rows, position] = tokens
        totals[rows] += best[:, 0, 0].where(live, 0.0)
        live &= (tokens != options.eos_id) & (max_lengths[rows] > position + 1)
        number_live = int(live.sum())
        if number_live == 0:
            break
        if number_live <= _LIVE_SHARE * len(rows):
            kept = live.nonzero()[:, 0]
            state.select(kept)
            rows, live, tokens = rows[kept], live[kept], tokens[kept]
    return [
        Hypothesis(_truncate_at_eos(ids, options.eos_id), total)
        for ids, total in zip(written.tolist(), totals.tolist(), strict=True)
    ]


def _truncate_at_eos(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


def _beam(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
) -> list[list[Hypothesis]]:
    """Keep ``beam_size`` hypotheses a sentence, until as many have ended.

    A hypothesis ends when its EOS is among the ``beam_size`` best continuations of all.
    """
    size = options.beam_size
    finished: list[list[Hypothesis]] = [[] for _ in range(src.size(0))]
    limits = max_lengths.tolist()
    state = model.init_state(src, size)
    banned = torch.tensor(options.banned_ids, dtype=torch.int64, device=src.device)
    sentences = list(range(src.size(0)))  # which sentence each row of the batch is
    # Start with one hypothesis per sentence: copies of BOS would fill the beam with duplicates.
    written = torch.full((src.size(0), 1, 1), options.bos_id, device=src.device)
    totals = torch.zeros((src.size(0), 1), device=src.device)
    # 2 x beam: each hypothesis has one EOS, so at least beam_size candidates are no EOS.
    count = min(2 * size, model.tgt_size)
    for position in range(1, max(limits) + 1):
        forced = _get_forced(prefixes, position - 1, sentences)
        step_log_probs, ids = _continuations(model, written[:, :, -1], state, banned, count, forced)
        candidates = (totals[:, :, None] + step_log_probs).flatten(1)
        totals, flat = candidates.topk(min(2 * size, candidates.size(1)), dim=1)
        tokens, parents = ids.flatten(1).gather(1, flat), flat // count
        is_eos = tokens == options.eos_id
        finishes = is_eos[:, :size] & totals[:, :size].isfinite()
        for row, hypothesis in _hypotheses(finishes, written, parents, totals):
            if not _is_done(finished[sentences[row]], limits[sentences[row]], position - 1, size):
                finished[sentences[row]].append(hypothesis)

        active = is_eos.int().argsort(dim=1, stable=True)[:, :size]
        totals, parents, tokens = (each.gather(1, active) for each in (totals, parents, tokens))
        # With fewer tokens than the beam has places, an EOS may be among the active ones.
        totals = totals.masked_fill(tokens == options.eos_id, float("-inf"))
        state.reorder(parents)
        written = torch.cat((_gather_parents(written, parents), tokens[..., None]), dim=2)
        _end_at_limit(finished, sentences, limits, position, written, totals)
        live = [
            row
            for row, sentence in enumerate(sentences)
            if not _is_done(finished[sentence], limits[sentence], position, size)
        ]
        if not live:
            break
        if len(live) <= _LIVE_SHARE * len(sentences):
            kept = torch.tensor(live, device=src.device)
            state.select(kept)
            written, totals = written[kept], totals[kept]
            sentences = [sentences[row] for row in live]
    # sorted is stable: ties stay in the order in which they finished.
    alpha = options.length_penalty
    return [sorted(each, key=lambda one: one.score(alpha), reverse=True) for each in finished]


def _is_done(finished: list[Hypothesis], limit: int, position: int, size: int) -> bool:
    return len(finished) >= size or position >= limit


def _gather_parents(written: Tensor, parents: Tensor) -> Tensor:
    return written.gather(1, parents[..., None].expand(-1, -1, written.size(2)))


def _hypotheses(
    chosen: Bool[Tensor, "batch hypothesis"], written: Tensor, parents: Tensor, totals: Tensor
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield (row, finished hypothesis) for each chosen EOS continuation, row by row, best first."""
    rows, places = chosen.nonzero().unbind(dim=1)
    ids = written[rows, parents[rows, places], 1:]
    for row, of_row, total in zip(
        rows.tolist(), ids.tolist(), totals[rows, places].tolist(), strict=True
    ):
        yield row, Hypothesis(of_row, total)


def _end_at_limit(
    finished: list[list[Hypothesis]],
    sentences: list[int],
    limits: list[int],
    position: int,
    written: Tensor,
    totals: Tensor,
) -> None:
    """Give sentences that reach their limit without any end their best hypothesis, cut there."""
    for row, sentence in enumerate(sentences):
        if position == limits[sentence] and not finished[sentence]:
            hypothesis = Hypothesis(written[row, 0, 1:].tolist(), float(totals[row, 0]))
            finished[sentence].append(hypothesis)

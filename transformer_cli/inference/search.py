"""Finding a likely translation, over token ids: greedy and beam search."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
    """One translation: its ids, without begin and end marks, and its log-probability.

    The log-probability is the sum over its tokens and, if it ended by itself, the end mark.
    """

    ids: list[int]
    log_probability: float


@torch.inference_mode()
def search(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
) -> list[Hypothesis]:
    """The best hypothesis found for each row of ``src``.

    Args:
        model: in evaluation mode.
        src: padded source rows.
        max_lengths: most tokens of each row's output, at least 1; search stops there.
        options: kind of search.
    """
    if options.beam_size == 1:
        return _greedy(model, src, max_lengths, options)
    return _beam(model, src, max_lengths, options)


def _next_log_probabilities(
    model: Transformer, tokens: Tensor, state: DecoderState, options: SearchOptions
) -> Float[Tensor, "row tgt_size"]:
    log_probabilities = model.step(tokens, state).float().log_softmax(dim=1)
    log_probabilities[:, list(options.banned_ids)] = float("-inf")
    return log_probabilities


def _greedy(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
) -> list[Hypothesis]:
    """The most likely token at each step, until the end mark; finished rows leave the batch."""
    state = model.start(src)
    rows = torch.arange(src.size(0), device=src.device)  # which sentence each live row is
    tokens = torch.full_like(rows, options.bos_id)
    written = torch.full((src.size(0), int(max_lengths.max())), options.eos_id, device=src.device)
    totals = torch.zeros(src.size(0), device=src.device)
    for position in range(written.size(1)):
        best, tokens = _next_log_probabilities(model, tokens, state, options).max(dim=1)
        written[rows, position] = tokens
        totals[rows] += best
        live = (tokens != options.eos_id) & (max_lengths[rows] > position + 1)
        kept = live.nonzero()[:, 0]
        if len(kept) == 0:
            break
        if len(kept) < len(rows):
            state.select(kept)
            rows, tokens = rows[kept], tokens[kept]
    return [
        Hypothesis(_up_to(ids, options.eos_id), total)
        for ids, total in zip(written.tolist(), totals.tolist(), strict=True)
    ]


def _up_to(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


def _beam(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
) -> list[Hypothesis]:
    """Beam search: ``beam_size`` live rows a sentence, until as many hypotheses have ended.

    A hypothesis ends when its end mark is among the ``beam_size`` best continuations of all.
    """
    size = options.beam_size
    ended: list[list[Hypothesis]] = [[] for _ in range(src.size(0))]
    limits = max_lengths.tolist()
    state = model.start(src)
    sentences = list(range(src.size(0)))  # those still searched, in the order of their rows
    state.select(torch.arange(len(sentences), device=src.device).repeat_interleave(size))
    written = torch.full((len(sentences) * size, 1), options.bos_id, device=src.device)
    # All rows of a sentence begin alike: only the first may be continued.
    totals = torch.full((len(sentences), size), float("-inf"), device=src.device)
    totals[:, 0] = 0.0
    for position in range(1, max(limits) + 1):
        step = _next_log_probabilities(model, written[:, -1], state, options)
        continued = (totals[:, :, None] + step.view(len(sentences), size, -1)).flatten(1)
        # Twice the beam: at most half of these can be ends, one a row.
        totals, flat = continued.topk(2 * size, dim=1)
        tokens = flat % step.size(1)
        first_rows = torch.arange(0, len(written), size, device=src.device)[:, None]
        rows = first_rows + flat // step.size(1)
        ends = tokens == options.eos_id
        for index, rank in (ends[:, :size] & totals[:, :size].isfinite()).nonzero().tolist():
            ids = written[rows[index, rank], 1:].tolist()
            ended[sentences[index]].append(Hypothesis(ids, float(totals[index, rank])))

        going_on = ends.int().argsort(dim=1, stable=True)[:, :size]
        totals, rows, tokens = (each.gather(1, going_on) for each in (totals, rows, tokens))
        _end_at_limit(ended, sentences, limits, position, written, totals, rows, tokens)
        kept = [
            index
            for index, sentence in enumerate(sentences)
            if len(ended[sentence]) < size and position < limits[sentence]
        ]
        if not kept:
            break
        totals, rows, tokens = totals[kept], rows[kept].flatten(), tokens[kept].flatten()
        sentences = [sentences[index] for index in kept]
        state.select(rows)
        written = torch.cat((written[rows], tokens[:, None]), dim=1)
    return [max(each, key=lambda one: _penalised(one, options)) for each in ended]


def _end_at_limit(
    ended: list[list[Hypothesis]],
    sentences: list[int],
    limits: list[int],
    position: int,
    written: Tensor,
    totals: Tensor,
    rows: Tensor,
    tokens: Tensor,
) -> None:
    """Give sentences that reach their limit without any end their best live row, cut there."""
    for index, sentence in enumerate(sentences):
        if position == limits[sentence] and not ended[sentence]:
            ids = [*written[rows[index, 0], 1:].tolist(), int(tokens[index, 0])]
            ended[sentence].append(Hypothesis(ids, float(totals[index, 0])))


def _penalised(hypothesis: Hypothesis, options: SearchOptions) -> float:
    # Lengths count the end mark, so that an empty output has length 1.
    penalty = math.pow((5.0 + len(hypothesis.ids) + 1.0) / 6.0, options.length_penalty)
    return hypothesis.log_probability / penalty

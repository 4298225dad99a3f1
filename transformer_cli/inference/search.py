"""Greedy and beam search over token ids with torch, in batches of similar length on all cores.

In greedy search, a sentence ends at EOS or at its maximum length. In beam search, ``has_ended`` in
``_beam`` defines when the beam of a sentence ends.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.base.errors import is_out_of_memory
from transformer_cli.inference.engine import (
    Hypothesis,
    SearchOptions,
    describe_versions,
    repeats_itself,
)
from transformer_cli.model.device import empty_cache
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.model.transformer import Transformer

Item = TypeVar("Item")
Result = TypeVar("Result")

# Maximum number of batches at the same time. More would wait for each other, because only one
# thread at a time runs Python code between torch's operations.
_MAX_WORKERS = 4


@dataclass(frozen=True)
class TorchEngine:
    """The ``SearchEngine`` for our own model: greedy and beam search.

    Attributes:
        model: the model on its device, in evaluation mode.
        precision: the dtype of matmuls.
    """

    model: Transformer
    precision: torch.dtype
    name = "torch"

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def is_on_gpu(self) -> bool:
        """Whether the model is on a GPU."""
        return self.device.type != "cpu"

    @property
    def fingerprint(self) -> dict[str, str]:
        """The precision and torch's version, because rounding depends on both."""
        precision = {"precision": str(self.precision).removeprefix("torch.")}
        return precision | describe_versions("torch")

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source; search batches of similar length on all cores.

        See ``SearchEngine.search`` for the arguments.
        """
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        lengths = np.array([len(ids) for ids in sources])
        # Longest first, so that a lack of memory shows at once. Empty sources are left out.
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        # Each hypothesis of a beam takes as much memory as a sentence.
        max_tokens = batch_tokens // options.decoding.beam_size
        batches = list(cut_longest_first(order, lengths, max_tokens))

        def search_rows(batch: np.ndarray) -> list[list[Hypothesis]]:
            if should_stop():
                return [[] for _ in batch]
            with autocast(self.device, self.precision):
                return search(
                    self.model,
                    pad([sources[index] for index in batch], self.model.pad_id),
                    torch.tensor([max_lengths[index] for index in batch]),
                    options,
                    batch.tolist(),
                )

        with autocast(self.device, self.precision), pack_weights(self.model):
            search_batch = partial(split_when_out_of_memory, search_rows)
            found = map_on_cores(search_batch, batches, self.device)
            for batch, parts in zip(batches, found, strict=True):
                for index, hypotheses in zip(batch, chain.from_iterable(parts), strict=True):
                    outputs[index] = hypotheses
                progress(len(batch))
        return outputs


@torch.inference_mode()
def search(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    places: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Return 1 to ``beam_size`` hypotheses for each row of ``src``, in the order they ended.

    Args:
        model: the model in evaluation mode.
        src: padded source rows.
        max_lengths: maximum number of output tokens for each row, at least 1; search stops there.
        options: how to search.
        places: the index of each row's source among all sources; see ``Constraint.of_batch``.
    """
    device = next(model.parameters()).device
    src, max_lengths = src.to(device), max_lengths.to(device)
    narrow = _narrow_by(options, src, places)
    if options.decoding.beam_size == 1:
        return [[one] for one in _greedy(model, src, max_lengths, options, narrow)]
    return _beam(model, src, max_lengths, options, narrow)


Rank = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function that chooses next tokens; it returns their log-probabilities and ids, best first.

Its arguments are log-probabilities, with a row for each hypothesis, and each row's sentence index.
"""
Narrow = Callable[[Tensor, Tensor, Tensor], object]
"""A function that sets forbidden log-probabilities to -inf; see ``Constraint.of_batch``."""

# Number of logits computed at a time; on a CPU, they are still in its cache for top-k.
_LOGITS_AT_A_TIME = {"cpu": 1 << 21, "cuda": 1 << 28, "mps": 1 << 25}
_GROUP = 64  # columns per group in top_k
# Remove finished sentences only at or below this share of live ones, as removal copies caches.
_LIVE_SHARE = 0.8


def _narrow_by(options: SearchOptions, src: Tensor, places: Sequence[int]) -> Narrow:
    """Return the function that forbids banned tokens and applies constraints to a batch."""
    banned = torch.tensor(options.banned_ids, dtype=torch.int64, device=src.device)
    constraints = [each.of_batch(places, src.device) for each in options.constraints]
    if options.decoding.no_repeat_ngram_size is not None:
        constraints.append(_forbid_repeats(src, options))

    def narrow(log_probabilities: Tensor, sentences: Tensor, written: Tensor) -> None:
        log_probabilities.index_fill_(1, banned, float("-inf"))
        for constrain in constraints:
            constrain(log_probabilities, sentences, written)

    return narrow


def _forbid_repeats(src: Int[Tensor, "batch src"], options: SearchOptions) -> Narrow:
    """Return the function that applies ``no_repeat_ngram_size`` to a batch."""
    size = options.decoding.no_repeat_ngram_size or 0
    sources = (truncate_at_eos(ids, options.eos_id) for ids in src.tolist())
    is_free = torch.tensor([repeats_itself(ids, size) for ids in sources], device=src.device)

    def forbid(log_probabilities: Tensor, sentences: Tensor, written: Tensor) -> None:
        if written.size(1) < size:
            return
        sequences = written.unfold(1, size, 1)
        same = (sequences[:, :, :-1] == written[:, None, 1 - size :]).all(dim=2)
        rows, starts = (same & ~is_free[sentences, None]).nonzero().unbind(dim=1)
        log_probabilities[rows, sequences[rows, starts, -1]] = float("-inf")

    return forbid


def find_continuations(
    model: Transformer,
    written: Int[Tensor, "batch hypothesis length"],
    state: Any,
    narrow: Narrow,
    rank: Rank,
    sentences: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch hypothesis count"], Int[Tensor, "batch hypothesis count"]]:
    """Return the log-probabilities and ids of the next tokens that ``rank`` chooses.

    ``written`` has the tokens of each hypothesis so far, from BOS on.
    """
    hidden_states = model.step(written[:, :, -1], state).flatten(0, 1)
    rows = max(1, _LOGITS_AT_A_TIME[hidden_states.device.type] // model.tgt_size)
    so_far, of_rows = written.flatten(0, 1), sentences.repeat_interleave(written.size(1))
    best = []
    for start in range(0, len(hidden_states), rows):
        part = slice(start, start + rows)
        logits = model.logits(hidden_states[part])
        log_probabilities = logits.log_softmax(dim=1, dtype=torch.float32)
        narrow(log_probabilities, of_rows[part], so_far[part])
        best.append(rank(log_probabilities, of_rows[part]))
    values, ids = (
        torch.cat(parts).view(*written.shape[:2], -1) for parts in zip(*best, strict=True)
    )
    return values, ids


def likeliest(count: int) -> Rank:
    """Return a function that chooses the ``count`` likeliest tokens."""
    return lambda log_probabilities, _: top_k(log_probabilities, count)


def top_k(
    x: Float[Tensor, "row column"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Return each row's ``count`` greatest elements, in descending order, and their column indices.

    torch.topk is slow on long rows. Divided into equal groups and a remainder, a row has its top
    elements in the ``count`` groups with the greatest maxima, or in the remainder.
    """
    groups = x.size(1) // _GROUP
    if groups <= count:
        return x.topk(count, dim=1)
    grouped = x[:, : groups * _GROUP].view(len(x), groups, _GROUP)
    chosen = grouped.amax(dim=2).topk(count, dim=1).indices
    starts = torch.arange(len(x), device=x.device)[:, None]
    candidates = torch.cat((grouped[starts, chosen].flatten(1), x[:, groups * _GROUP :]), dim=1)
    values, places = candidates.topk(count, dim=1)
    # Treat the columns after the last group, which end the candidates, as one more group.
    chosen = F.pad(chosen, (0, 1), value=groups)
    return values, chosen.gather(1, places // _GROUP) * _GROUP + places % _GROUP


def _greedy(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    narrow: Narrow,
) -> list[Hypothesis]:
    """Choose the likeliest token at each step, or draw one, until EOS."""
    state = model.init_state(src)
    rank = likeliest(1)
    if options.sampler is not None:
        rank = options.sampler([truncate_at_eos(ids, options.eos_id) for ids in src.tolist()])
    rows = torch.arange(len(src), device=src.device)  # which sentence each row is
    live = torch.ones_like(rows, dtype=torch.bool)
    written = torch.full((len(src), 1 + int(max_lengths.max())), options.eos_id, device=src.device)
    written[:, 0] = options.bos_id
    totals = torch.zeros(len(src), device=src.device)
    for length in range(1, written.size(1)):
        so_far = written[rows, None, :length]
        best, ids = find_continuations(model, so_far, state, narrow, rank, rows)
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
    found = _hypotheses(written, totals)
    return [replace(each, ids=truncate_at_eos(each.ids, options.eos_id)) for each in found]


def truncate_at_eos(ids: list[int], eos_id: int) -> list[int]:
    """Return the ids before the first EOS, or all ids if there is none."""
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


def _beam(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    narrow: Narrow,
) -> list[list[Hypothesis]]:
    """Keep the ``beam_size`` likeliest hypotheses of each sentence until its beam ends.

    A hypothesis ends when its EOS is among the sentence's ``beam_size`` best continuations.
    """
    size, limits = options.decoding.beam_size, max_lengths.tolist()
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def has_ended(sentence: int, length: int) -> bool:
        # A beam ends when it has ``beam_size`` ended hypotheses, or at the maximum length. A live
        # hypothesis might still become better than all of them, but we do not search for it. Other
        # engines and exported models do the same.
        return len(ended[sentence]) >= size or length >= limits[sentence]

    state = model.init_state(src, size)
    sentences = list(range(len(limits)))  # which sentence each row of the batch is
    rows_of = torch.arange(len(limits), device=src.device)  # the same
    # Start with one hypothesis per sentence: copies of BOS would fill the beam with duplicates.
    written = torch.full((len(limits), 1, 1), options.bos_id, device=src.device)
    totals = torch.zeros((len(limits), 1), device=src.device)
    # Twice the beam: each hypothesis has one EOS, so at least beam_size candidates are not EOS.
    count = min(2 * size, model.tgt_size)
    rank = likeliest(count)
    for length in range(1, max(limits) + 1):
        best, ids = find_continuations(model, written, state, narrow, rank, rows_of)
        candidates = (totals[:, :, None] + best).flatten(1)
        totals, flat = candidates.topk(min(2 * size, candidates.size(1)), dim=1)
        tokens, parents = ids.flatten(1).gather(1, flat), flat // count
        is_eos = tokens == options.eos_id
        rows, places = (is_eos[:, :size] & totals[:, :size].isfinite()).nonzero().unbind(dim=1)
        ending = _hypotheses(written[rows, parents[rows, places]], totals[rows, places])
        for row, hypothesis in zip(rows.tolist(), ending, strict=True):
            if not has_ended(sentences[row], length - 1):
                ended[sentences[row]].append(hypothesis)

        live = is_eos.int().argsort(dim=1, stable=True)[:, :size]
        totals, parents, tokens = (x.gather(1, live) for x in (totals, parents, tokens))
        # If the vocabulary has fewer tokens than the beam has places, an EOS may be live here.
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
            unfinished = _hypotheses(written[cut, 0], totals[cut, 0])
            for row, hypothesis in zip(cut, unfinished, strict=True):
                ended[sentences[row]] = [hypothesis]
        going = [row for row, sentence in enumerate(sentences) if not has_ended(sentence, length)]
        if not going:
            break
        if len(going) <= _LIVE_SHARE * len(sentences):
            kept = torch.tensor(going, device=src.device)
            state.select(kept)
            written, totals, rows_of = written[kept], totals[kept], rows_of[kept]
            sentences = rows_of.tolist()
    return ended


def _hypotheses(written: Int[Tensor, "row length"], totals: Tensor) -> list[Hypothesis]:
    return list(map(Hypothesis, written[:, 1:].tolist(), totals.tolist()))


# --- batches --------------------------------------------------------------------------------------


def cut_longest_first(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Cut ``order``, longest sentence first, into slices of at most ``batch_tokens``, padded."""
    while len(order):
        rows = max(1, batch_tokens // lengths[order[0]])
        yield order[:rows]
        order = order[rows:]


def pad(rows: Sequence[list[int]], value: int) -> Int[Tensor, "batch longest"]:
    """Return rows of ids as a tensor, padded on the right."""
    padded = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> Iterator[Result]:
    """Yield the result of ``function`` for each item, in order; a CPU computes several at a time.

    These items run in threads of their own, each with a share of torch's threads. So ``function``
    itself must set what is local to a thread, such as autocast.
    """
    # A decoding step consists of many small operations, which several cores share badly.
    threads = torch.get_num_threads()
    of_each = -(-threads // max(1, min(_MAX_WORKERS, len(items))))
    workers = min(threads // of_each, len(items)) if device.type == "cpu" else 1
    if workers <= 1:
        yield from map(function, items)
        return
    executor = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(of_each,))
    try:
        yield from executor.map(function, items)
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def split_when_out_of_memory(
    function: Callable[[np.ndarray], Result], rows: np.ndarray
) -> list[Result]:
    """Call ``function`` on ``rows``; if memory runs out, call it on each half, and so on.

    Args:
        function: computes a result from these rows only. After it runs out of memory, it is called
            again on some of the same rows, so it must leave nothing behind when it raises.
        rows: the rows to compute, for example the indices of a batch's sentences.

    Returns:
        What ``function`` returned for each part, in the order of ``rows``.

    Raises:
        MemoryError, RuntimeError: a single row does not fit, or there is another error.
    """
    try:
        return [function(rows)]
    except (MemoryError, RuntimeError) as error:
        if len(rows) < 2 or not is_out_of_memory(error):
            raise
    # This is outside the handler, so that the traceback no longer holds the tensors of the call.
    empty_cache()
    halves = np.array_split(rows, 2)
    return [part for half in halves for part in split_when_out_of_memory(function, half)]

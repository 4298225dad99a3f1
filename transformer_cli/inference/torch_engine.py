"""Search by torch: many sentences, in batches of like length and on all cores."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from transformer_cli.data.batches import pad_rows
from transformer_cli.data.token_arrays import cut_by_tokens
from transformer_cli.inference.alignment import align_tokens
from transformer_cli.inference.bucketed_search import BucketedSearch
from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions
from transformer_cli.inference.search import NOT_FORCED, search
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.device import autocast
from transformer_cli.model.ensemble import Ensemble
from transformer_cli.model.graphs import graphs_enabled
from transformer_cli.model.linear import pack_weights
from transformer_cli.model.out_of_memory import split_when_out_of_memory
from transformer_cli.model.transformer import Transformer

Item = TypeVar("Item")
Result = TypeVar("Result")

# More would wait for each other: between torch's operations only one of them can run.
_MOST_WORKERS = 4


@dataclass(frozen=True)
class TorchEngine:
    """Greedy and beam search over our own model; a ``SearchEngine``.

    Attributes:
        model: on its device, in evaluation mode.
        precision: type of the matrix products.
        use_graphs: on a CUDA device, search in buckets of fixed shapes and replay their graphs.
        others: models on the same device, of the same tokenizers, whose probabilities are averaged
            with those of ``model``; they do without graphs.
    """

    supports_prefixes: ClassVar[bool] = True
    supports_alignments: ClassVar[bool] = True
    supports_sampling: ClassVar[bool] = True

    model: Transformer
    precision: torch.dtype
    use_graphs: bool = True
    others: tuple[Transformer, ...] = ()
    _bucketed: BucketedSearch = field(
        default_factory=BucketedSearch, init=False, repr=False, compare=False
    )

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    @cached_property
    def searched(self) -> Transformer | Ensemble:
        """What is searched: the model, or all of them as one."""
        return Ensemble([self.model, *self.others]) if self.others else self.model

    @property
    def fingerprint(self) -> dict[str, str]:
        """Settings that decide the output: the precision."""
        return {"precision": str(self.precision).removeprefix("torch.")}

    def search(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source; see ``SearchEngine.search``."""
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        lengths = np.array([len(ids) for ids in sources])
        # Longest first: what does not fit into memory fails at once. Empty ones are left out.
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        device = self.device
        # Each hypothesis of a beam takes as much memory as a sentence.
        batches = list(cut_by_tokens(order, lengths, batch_tokens // options.beam_size))
        use_graphs = device.type == "cuda" and self.use_graphs and graphs_enabled()
        use_graphs = use_graphs and not self.others and options.sample_seed is None
        decode: Callable[..., list[list[Hypothesis]]] = self._bucketed if use_graphs else search

        def search_rows(batch: np.ndarray) -> list[list[Hypothesis]]:
            if should_stop():
                return [[] for _ in batch]
            with autocast(device, self.precision):
                return decode(
                    self.searched,
                    pad_rows([sources[index] for index in batch]),
                    torch.tensor([max_lengths[index] for index in batch]),
                    options,
                    _pad_prefixes([prefixes[index] for index in batch]),
                )

        def search_batch(batch: np.ndarray) -> list[list[Hypothesis]]:
            return list(chain.from_iterable(split_when_out_of_memory(search_rows, batch)))

        with autocast(device, self.precision), pack_weights(self.searched):
            found = map_on_cores(search_batch, batches, device)
            for batch, of_batch in zip(batches, found, strict=True):
                for index, hypotheses in zip(batch, of_batch, strict=True):
                    outputs[index] = hypotheses
                progress(len(batch))
        return outputs

    def align(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
    ) -> list[list[int]]:
        """Return what each target token is aligned to; see ``SearchEngine.align``."""
        return align_tokens(self.searched, sources, targets, batch_tokens, self.precision)


TorchTranslator = TextTranslator[TorchEngine]
"""A translator with the torch model, which also gives losses and attention weights."""


def _pad_prefixes(prefixes: list[list[int]]) -> Tensor | None:
    longest = max(map(len, prefixes))
    if not longest:
        return None
    rows = [ids + [NOT_FORCED] * (longest - len(ids)) for ids in prefixes]
    return torch.tensor(rows)


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> Iterator[Result]:
    """Apply ``function`` to each item; give the results in order.

    A decoding step is many small operations, which two cores share badly. So on a CPU several items
    are worked on at the same time, each with its part of torch's threads, and in threads of their
    own: what is local to a thread, as autocast is, ``function`` sets by itself.
    """
    threads = torch.get_num_threads()
    of_each = -(-threads // max(1, min(_MOST_WORKERS, len(items))))
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

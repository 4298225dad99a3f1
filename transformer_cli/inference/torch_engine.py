"""Search by torch, in batches of sentences of like length and on all cores."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.base.errors import is_out_of_memory
from transformer_cli.inference.engine import (
    Hypothesis,
    Result,
    SearchOptions,
    describe_versions,
)
from transformer_cli.inference.search import search
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.device import empty_cache
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model
from transformer_cli.text.vocabulary import PAD_ID

Item = TypeVar("Item")

# More would wait for each other: between torch's operations only one of them can run.
_MAX_WORKERS = 4


@dataclass(frozen=True)
class TorchEngine:
    """Greedy and beam search over our own model; a ``SearchEngine``.

    Attributes:
        model: on its device, in evaluation mode.
        precision: type of the matrix products.
    """

    model: Transformer
    precision: torch.dtype
    name = "torch"

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.device.type != "cpu"

    @property
    def fingerprint(self) -> dict[str, str]:
        """What decides the output: the precision, and torch's version, as rounding differs."""
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
        """Return the hypotheses of each source; see ``SearchEngine.search``."""
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        lengths = np.array([len(ids) for ids in sources])
        # Longest first: what does not fit into memory fails at once. Empty ones are left out.
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        device = self.device
        # Each hypothesis of a beam takes as much memory as a sentence.
        batches = list(cut_longest_first(order, lengths, batch_tokens // options.beam_size))

        def search_rows(batch: np.ndarray) -> list[list[Hypothesis]]:
            if should_stop():
                return [[] for _ in batch]
            with autocast(device, self.precision):
                return search(
                    self.model,
                    pad([sources[index] for index in batch], PAD_ID),
                    torch.tensor([max_lengths[index] for index in batch]),
                    options,
                    batch.tolist(),
                )

        search_batch = partial(split_when_out_of_memory, search_rows)
        with autocast(device, self.precision), pack_weights(self.model):
            found = map_on_cores(search_batch, batches, device)
            for batch, parts in zip(batches, found, strict=True):
                for index, hypotheses in zip(batch, chain.from_iterable(parts), strict=True):
                    outputs[index] = hypotheses
                progress(len(batch))
        return outputs

    def run_jobs(
        self, jobs: Iterator[Callable[[], Result]], stop: Callable[[], object]
    ) -> Iterator[Result]:
        """Run one job after another: each has all cores, or the GPU."""
        return (job() for job in jobs)


TorchTranslator = TextTranslator[TorchEngine]
"""A translator with the torch model, which also gives losses."""


def load_torch_translator(
    run: RunDirectory, checkpoint: str, device: torch.device, precision: torch.dtype
) -> TorchTranslator:
    """Load a trained run, or a model as it is shared; see ``load_trained_model``.

    Raises:
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    trained = load_trained_model(run, checkpoint)
    engine = TorchEngine(trained.model.to(device), precision)
    return TextTranslator(
        engine, trained.tokenizers, trained.config, trained.config.decoding, checkpoint=trained.sum
    )


def cut_longest_first(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Yield slices of ``order``, longest first, of at most ``batch_tokens`` when padded."""
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
    """Apply ``function`` to each item, on a CPU to several at the same time; results are in order.

    Each has its part of torch's threads, and a thread of its own: what is local to a thread, as
    autocast is, ``function`` sets by itself.
    """
    # A decoding step is many small operations, which two cores share badly.
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
    """Call ``function`` on ``rows``; out of memory, on each half of them, and so on.

    Args:
        function: computes something of these rows alone. It is called again on rows that it ran
            out of memory on, so it must leave nothing behind when it raises.
        rows: what to compute, for instance the indices of a batch's sentences.

    Returns:
        What ``function`` returned for each part, in the order of ``rows``.

    Raises:
        MemoryError, RuntimeError: a single row does not fit, or something else is wrong.
    """
    try:
        return [function(rows)]
    except (MemoryError, RuntimeError) as error:
        if len(rows) < 2 or not is_out_of_memory(error):
            raise
    # Outside the handler, where the traceback no longer holds the tensors of the call.
    empty_cache()
    halves = np.array_split(rows, 2)
    return [part for half in halves for part in split_when_out_of_memory(function, half)]

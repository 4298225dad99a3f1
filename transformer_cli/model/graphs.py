"""CUDA graphs: the kernels of a function, recorded once and then launched all at once."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import torch

from transformer_cli.errors import is_out_of_memory

Out = TypeVar("Out")


def graphs_enabled() -> bool:
    """Return whether CUDA graphs may be used: not with TRANSFORMER_CLI_CUDA_GRAPHS=0."""
    return os.environ.get("TRANSFORMER_CLI_CUDA_GRAPHS") != "0"


class GraphPool:
    """Graphs that share memory, since one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
        self._handle: Any = None

    def capture(self, function: Callable[[], Out]) -> Callable[[], Out]:
        """Return a function that does what ``function`` does, as a CUDA graph.

        ``function`` is called once more, to record its kernels; they do not run then. The graph
        reads and writes the same memory each time, so inputs have to be copied into the tensors
        that ``function`` uses, and Python numbers are baked in. It returns the same tensors each
        time, whose memory the next replay of any graph of the pool overwrites. Dropout draws anew:
        the graph reads the generator's seed.

        Args:
            function: has no arguments, never waits for the device, and has run before, within
                ``graph_stream``: cuBLAS, for one, allocates memory at its first call. On a CPU it
                is returned as it is.
        """
        if self._device.type != "cuda":
            return function
        try:
            return self._record(function)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        # While a graph is recorded, the allocator does not free what it has cached.
        torch.cuda.empty_cache()
        return self._record(function)

    def _record(self, function: Callable[[], Out]) -> Callable[[], Out]:
        if not self._graphs:
            # torch frees a pool with its last graph, and refuses to use it again.
            self._handle = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), graph_stream(self._device):
            # Not torch.cuda.graph(), which empties the allocator's cache before each capture.
            # Other threads may allocate meanwhile: they pin batches.
            graph.capture_begin(pool=self._handle, capture_error_mode="thread_local")
            try:
                out = function()
            finally:
                graph.capture_end()
        self._graphs.add(graph)

        def replay() -> Out:
            graph.replay()
            return out

        return replay


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep the collector from freeing other graphs in the block, which a capture forbids."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def graph_stream(device: torch.device) -> Iterator[None]:
    """Compute inside the block on the stream that graphs are captured on.

    Work before the block is done before it, and work after it waits for it. On a CPU it does
    nothing.
    """
    if device.type != "cuda":
        yield
        return
    outer, stream = torch.cuda.current_stream(device), _stream(device)
    stream.wait_stream(outer)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outer.wait_stream(stream)  # after an error too: memory that it frees is still in use there


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

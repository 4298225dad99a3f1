"""CUDA graphs: the kernels of a function, recorded once and then launched all at once."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

Out = TypeVar("Out")


def capture(function: Callable[[], Out], device: torch.device) -> Callable[[], Out]:
    """Return a function that does what ``function`` does, as a CUDA graph.

    ``function`` is called once more, to record its kernels; they do not run then. The graph reads
    and writes the same memory each time, so inputs have to be copied into the tensors that
    ``function`` uses, and Python numbers are those of today for good. It returns the same tensors
    each time, whose memory the next replay of any graph overwrites. Dropout draws anew: the graph
    reads the generator's seed.

    Args:
        function: has no arguments, never waits for the device, and has run before, within
            ``graph_stream``: cuBLAS, for one, allocates memory at its first call.
        device: where it computes; on a CPU, ``function`` itself is returned.
    """
    if device.type != "cuda":
        return function
    graph, pool = torch.cuda.CUDAGraph(), _pool_owner(device).pool()
    collecting = gc.isenabled()
    gc.disable()  # what the collector frees might be another graph, and that must not happen here
    try:
        with graph_stream(device):
            # Not torch.cuda.graph(), which empties the allocator's cache before each capture.
            # Other threads may allocate meanwhile: they pin batches.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                out = function()
            finally:
                graph.capture_end()
    finally:
        if collecting:
            gc.enable()

    def replay() -> Out:
        graph.replay()
        return out

    return replay


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


@cache
def _pool_owner(device: torch.device) -> torch.cuda.CUDAGraph:
    """Return a graph whose memory pool all graphs of ``device`` share, since one runs at a time.

    It is never replayed, but lives on: torch refuses to capture into a pool that no graph owns any
    more, as after the last one that computes something was freed.
    """
    graph = torch.cuda.CUDAGraph()
    number = torch.zeros((), device=device)
    with graph_stream(device):
        graph.capture_begin(capture_error_mode="thread_local")
        number.add_(1.0)  # a graph without a kernel is warned of
        graph.capture_end()
    return graph

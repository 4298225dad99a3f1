"""Search in buffers of fixed shapes, as CUDA graphs need it.

It finds what ``search`` finds, but for exact ties of tokens. That one drops finished sentences and
grows its caches, which is less work; here no step waits for the device or changes a shape, which
keeps a GPU busy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions
from transformer_cli.inference.search import (
    NOT_FORCED,
    Rank,
    find_continuations,
)
from transformer_cli.model.graphs import GraphPool, graph_stream
from transformer_cli.model.transformer import Transformer

# Whether sentences are left is read from the device after so many steps: each read waits for it.
_STEPS_PER_READ = 8


@dataclass(frozen=True)
class Bucket:
    """Sizes of the buffers; batches are padded to them.

    Attributes:
        rows: sentences.
        src_length: tokens of a source.
        capacity: most tokens of an output.
        has_prefixes: whether outputs may be forced to begin with given tokens.
        options: kind of search.
    """

    rows: int
    src_length: int
    capacity: int
    has_prefixes: bool
    options: SearchOptions


class StaticSearch(ABC):
    """Searches batches of one bucket, one at a time.

    ``start`` and ``step`` have no arguments and compute on the same buffers each time, without
    waiting for the device, so they can be captured as CUDA graphs. Each bucket's first batch runs
    without graphs: kernels are chosen and workspaces allocated then.

    Args:
        model: in evaluation mode.
        bucket: sizes and kind of search.
    """

    def __init__(self, model: Transformer, bucket: Bucket) -> None:
        device = model.output.weight.device
        rows, capacity = bucket.rows, bucket.capacity
        self.bucket = bucket
        self._model = model
        self._eos_id = bucket.options.eos_id
        self._beam_size = bucket.options.beam_size
        self._banned = torch.tensor(bucket.options.banned_ids, dtype=torch.int64, device=device)
        self._src = torch.full((rows, bucket.src_length), model.pad_id, device=device)
        self._limits = torch.ones(rows, dtype=torch.int64, device=device)
        self._prefixes = torch.full((rows, capacity), NOT_FORCED, device=device)
        self._live = torch.ones(rows, dtype=torch.bool, device=device)
        self._state = model.init_static_state(rows, bucket.src_length, capacity, self._beam_size)
        self._graphs: tuple[Callable[[], object], Callable[[], object]] | None = None

    @property
    def nbytes(self) -> int:
        """Memory of the caches, which is nearly all."""
        return self._state.nbytes

    @property
    def is_captured(self) -> bool:
        """Whether graphs are replayed."""
        return self._graphs is not None

    @torch.inference_mode()
    def capture(self, pool: GraphPool) -> None:
        """Replay graphs from now on, in the precision of now; there was a run before."""
        self._graphs = pool.capture(self.start), pool.capture(self.step)

    @torch.inference_mode()
    def run(
        self,
        src: Int[Tensor, "batch src"],
        max_lengths: Int[Tensor, " batch"],
        prefixes: Int[Tensor, "batch prefix"] | None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each row of ``src``, as ``search`` does.

        The arguments, which fit into the bucket, are best on the host.
        """
        limits = max_lengths.tolist()
        start, step = self._graphs or (self.start, self.step)
        with graph_stream(self._src.device):
            self._copy_inputs(src, max_lengths, prefixes)
            start()
            for done in range(1, max(limits) + 1):
                step()
                if done % _STEPS_PER_READ == 0 and not self._live.any():
                    break
            return self._read(limits, done)

    def _copy_inputs(self, src: Tensor, max_lengths: Tensor, prefixes: Tensor | None) -> None:
        bucket, more_rows = self.bucket, self.bucket.rows - len(src)
        padding = (0, bucket.src_length - src.size(1), 0, more_rows)
        padded = F.pad(src, padding, value=self._model.pad_id)
        padded[len(src) :, 0] = self._eos_id  # no row attends to nothing
        self._src.copy_(padded)
        self._limits.copy_(F.pad(max_lengths, (0, more_rows), value=1))
        if prefixes is not None:
            padding = (0, bucket.capacity - prefixes.size(1), 0, more_rows)
            self._prefixes.copy_(F.pad(prefixes, padding, value=NOT_FORCED))

    def start(self) -> None:
        """Encode the sources and begin anew."""
        self._model.start(self._src, self._state)
        self._live.fill_(True)

    @abstractmethod
    def step(self) -> None:
        """Write one token of each hypothesis."""

    @abstractmethod
    def _read(self, limits: list[int], steps: int) -> list[list[Hypothesis]]:
        """Return what was found in ``steps`` steps for as many rows as there are limits."""

    def _find_continuations(
        self, tokens: Int[Tensor, "row hypothesis"], rank: Rank
    ) -> tuple[Float[Tensor, "row hypothesis count"], Int[Tensor, "row hypothesis count"]]:
        """Feed ``tokens`` as ``find_continuations`` does; the state advances."""
        forced = None
        if self.bucket.has_prefixes:
            forced = self._prefixes.index_select(1, self._state.position)[:, 0]
        return find_continuations(self._model, tokens, self._state, self._banned, rank, forced)

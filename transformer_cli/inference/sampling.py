"""Sample translations instead of searching for the likeliest one."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Sampler:
    """Draw the next token of each row from the model's distribution, by the Gumbel-max trick.

    Each row has a random generator of its own, seeded by its source. So what is drawn for a
    sentence depends neither on its batch nor on threads, and a text that is resumed comes out the
    same. Equal sentences have equal samples.
    """

    def __init__(self, sources: Sequence[Sequence[int]], seed: int) -> None:
        """Make a sampler.

        Args:
            sources: the ids of each row, without padding.
            seed: another one draws other samples.
        """
        self._set_generators([_seed_generator(seed, ids) for ids in sources])

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only."""
        self._set_generators([self._generators[row] for row in rows])

    def _set_generators(self, generators: list[torch.Generator]) -> None:
        self._generators = generators
        # The rows of a step come in parts, in order.
        self._turns: Iterator[torch.Generator] = cycle(generators)

    def __call__(
        self, x: Float[Tensor, "row token"]
    ) -> tuple[Float[Tensor, "row 1"], Int[Tensor, "row 1"]]:
        """Return the log-probability and the id of the token drawn for each row."""
        draws = torch.stack(
            [
                torch.empty(x.size(1)).exponential_(generator=generator)
                for generator in islice(self._turns, len(x))
            ]
        )
        ids = (x - draws.to(x.device).log()).argmax(dim=1, keepdim=True)
        return x.gather(1, ids), ids


def _seed_generator(seed: int, ids: Sequence[int]) -> torch.Generator:
    digest = hashlib.sha256(repr((seed, list(ids))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

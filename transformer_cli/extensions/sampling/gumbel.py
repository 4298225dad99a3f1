"""Draw random translations from a model's distribution."""

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Sampler:
    """A sampler that draws each row's next token at random, using the Gumbel-max trick.

    Each source sentence has its own random generator, seeded with ``seed`` and the sentence's ids.
    So samples depend neither on the batch nor on threads, and resuming a text gives the same
    samples. Equal sentences get equal samples.
    """

    def __init__(self, sources: Sequence[Sequence[int]], seed: int) -> None:
        self._generators = []
        for ids in sources:
            digest = hashlib.sha256(repr((seed, list(ids))).encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
            self._generators.append(generator)

    def __call__(
        self, x: Float[Tensor, "row token"], sentences: Int[Tensor, " row"]
    ) -> tuple[Float[Tensor, "row 1"], Int[Tensor, "row 1"]]:
        """Draw a token for each row of ``x``; return the log-probability and the id of each."""
        generators = [self._generators[sentence] for sentence in sentences.tolist()]
        draws = [torch.empty(x.size(1)).exponential_(generator=each) for each in generators]
        ids = (x - torch.stack(draws).to(x.device).log()).argmax(dim=1, keepdim=True)
        return x.gather(1, ids), ids

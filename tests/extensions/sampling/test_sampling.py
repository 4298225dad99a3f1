"""Samples follow the model's distribution, and depend only on the seed and the source."""

from functools import partial

import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.extensions.sampling.gumbel import Sampler
from transformer_cli.inference.engine import SearchOptions
from transformer_cli.inference.search import search
from transformer_cli.model.transformer import build_model

EOS = 2
MODEL = build_model(ModelConfig(d_model=16, num_heads=2, d_ff=32), 20, 20, 3, 1).eval()


def test_tokens_come_with_their_probabilities() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.2, 0.0])
    rows = 20_000
    sampler = Sampler([[row] for row in range(rows)], seed=1)
    values, ids = sampler(probabilities.log().expand(rows, -1), torch.arange(rows))
    counts = ids.flatten().bincount(minlength=4) / rows
    assert torch.allclose(counts, probabilities, atol=0.015)  # four deviations
    assert torch.equal(values, probabilities.log()[ids])


def _sample(sources: list[list[int]], seed: int) -> list[list[int]]:
    src = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor([*ids, EOS]) for ids in sources], batch_first=True, padding_value=3
    )
    options = SearchOptions(1, EOS, (0, 1, 3), sampler=partial(Sampler, seed=seed))
    limits = torch.tensor([8] * len(sources))
    return [found[0].ids for found in search(MODEL, src, limits, options)]


def test_a_sample_does_not_depend_on_its_batch() -> None:
    sources = [[4, 5, 6], [7], [8, 9, 10, 11, 12], [4, 4], [13, 5]]
    together = _sample(sources, seed=1)
    assert together == [_sample([source], seed=1)[0] for source in sources]
    assert together == _sample(sources[::-1], seed=1)[::-1]
    assert together != _sample(sources, seed=2)
    assert len({tuple(ids) for ids in together}) == len(sources)

"""What extensions forbid a search to write: in place, whatever the search moves where."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from inference.translators import random_translator
from transformer_cli.inference.engine import SearchOptions
from transformer_cli.inference.search import search
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

SOURCES = [[5, 6, EOS_ID], [7, 8, 9, 5, EOS_ID], [6, EOS_ID]]


@dataclass(frozen=True)
class NotTwice:
    """Forbids what is written already, and what is in the source."""

    def apply(self, log_probabilities: Tensor, written: Tensor, src: Tensor) -> None:
        forbidden = torch.cat((written[:, 1:], src.where(src != EOS_ID, PAD_ID)), dim=1)
        log_probabilities.scatter_(1, forbidden, float("-inf"))


def found(
    beam_size: int, *constraints: NotTwice, start: list[int] | None = None
) -> list[list[int]]:
    model = random_translator().engine.model
    longest = max(map(len, SOURCES))
    src = torch.tensor([ids + [PAD_ID] * (longest - len(ids)) for ids in SOURCES])
    options = SearchOptions(
        BOS_ID, EOS_ID, (BOS_ID, PAD_ID), beam_size, constraints=tuple(constraints)
    )
    prefixes = None if start is None else torch.tensor([start] * len(SOURCES))
    hypotheses = search(model, src, torch.full((len(SOURCES),), 6), options, prefixes)
    return [one.ids for of_source in hypotheses for one in of_source]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_nothing_that_is_forbidden_is_written(beam_size: int) -> None:
    free, kept = found(beam_size), found(beam_size, NotTwice())
    assert any(len(set(ids)) < len(ids) for ids in free)
    assert all(len(set(ids)) == len(ids) for ids in kept)
    assert len(kept) >= len(SOURCES)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_forced_prefix_goes_first(beam_size: int) -> None:
    kept = found(beam_size, NotTwice(), start=[5, 5])
    assert all(ids[:2] == [5, 5] for ids in kept)
    assert all(len(set(ids[1:])) == len(ids[1:]) for ids in kept)

"""The ids of tokenizers made elsewhere, in a run."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from transformer_cli.extensions.tokenizers.made_elsewhere import IdMap, SpecialIds
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID


@pytest.mark.long
@given(
    st.sets(st.integers(0, 2**32), min_size=4, max_size=40),
    st.tuples(*[st.booleans()] * 4),
    st.randoms(use_true_random=False),
)
def test_renumbering_is_one_to_one(ids: set[int], has: tuple[bool, ...], random: Any) -> None:
    places = random.sample(sorted(ids), 4)
    unk, bos, eos, pad = (place if one else None for place, one in zip(places, has, strict=True))
    numbers = IdMap(SpecialIds(unk=unk, bos=bos, eos=eos, pad=pad), ids)
    specials = {each for each in (unk, bos, eos, pad) if each is not None}
    assert len(numbers) == len(ids) - len(specials) + len(SPECIALS)
    rest = sorted(ids - specials)
    assert numbers.to_run(rest) == list(range(4, len(numbers)))
    assert numbers.to_model(range(4, len(numbers))) == rest
    assert numbers.to_run([each for each in (bos, eos, pad) if each is not None]) == [UNK_ID] * sum(
        has[1:]
    )
    assert numbers.to_model([UNK_ID, BOS_ID, EOS_ID, PAD_ID]) == ([] if unk is None else [unk])


@pytest.mark.parametrize("places", [(0, 0), (0, 99), (0, -1)])
def test_specials_that_cannot_be_are_refused(places: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="specials"):
        IdMap(SpecialIds(unk=places[0], bos=places[1], eos=None, pad=None), range(10))

import random

from benchmarks.noise import ADDED, KINDS, REPLACED, inject

PAIRS = [(f"{n}. Männer für Bäume {n}", f"{n}. men for trees {n}") for n in range(500)]


def test_noise_is_where_it_is_said_to_be_and_the_rest_is_as_it_was() -> None:
    noisy = inject(PAIRS, random.Random(3))
    assert noisy == inject(PAIRS, random.Random(3))
    assert [pair for pair, kind in noisy if kind is None] == sorted(
        {pair for pair, kind in noisy if kind is None}, key=PAIRS.index
    )
    for kind, share in {**REPLACED, **ADDED}.items():
        found = [pair for pair, each in noisy if each == kind]
        assert len(found) == round(share * len(PAIRS))
        if kind != "duplicate":
            assert not set(found) & set(PAIRS)
    assert {kind for _, kind in noisy} == {None, *KINDS}
    seen: set[tuple[str, str]] = set()
    for pair, noise in noisy:
        assert noise != "duplicate" or pair in seen
        seen.add(pair)

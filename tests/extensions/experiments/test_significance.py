"""Intervals compared with sacreBLEU's own, and properties of p-values for any sample."""

import os
import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transformer_cli.evaluation import scores
from transformer_cli.evaluation.scores import SAMPLES, measure
from transformer_cli.extensions.experiments.seed_statistics import paired_bootstrap

LINE = "a black dog runs through the tall grass while two men sit on an old bench"
WORDS = LINE.split()


def sentences(seed: str, count: int = 60) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=12)).capitalize() for _ in range(count)]


def spoilt(lines: list[str], each: int, seed: str) -> list[str]:
    """The same sentences with this many words of each replaced."""
    generator = random.Random(seed)
    results = []
    for line in lines:
        words = line.split()
        for place in generator.sample(range(1, len(words)), each):
            words[place] = "wrong"
        results.append(" ".join(words))
    return results


REFERENCES = sentences("references")
GOOD = spoilt(REFERENCES, 1, "good")
AS_GOOD = spoilt(REFERENCES, 1, "as good")
BAD = spoilt(REFERENCES, 4, "bad")


@pytest.mark.parametrize("lowercase", [False, True])
def test_intervals_are_sacrebleus_of_each_system_alone(lowercase: bool) -> None:
    systems = [GOOD, BAD]
    found = paired_bootstrap(systems, REFERENCES, BLEU(lowercase=lowercase))
    for system, resampled in zip(systems, found, strict=True):
        bleu = BLEU(lowercase=lowercase)
        alone = bleu.corpus_score(system, [REFERENCES], n_bootstrap=SAMPLES)
        assert resampled.half_width == pytest.approx(alone._ci)
        assert (resampled.half_width or 0) > 0
        assert resampled.signature == str(bleu.get_signature())


def test_the_signature_says_how_it_was_resampled() -> None:
    cased = paired_bootstrap([GOOD, BAD], REFERENCES, BLEU())[0].signature.split("|")
    first, _ = paired_bootstrap([GOOD, BAD], REFERENCES, BLEU(lowercase=True))
    lowercased = first.signature.split("|")
    assert {"bs:1000", "seed:12345", "case:mixed", "tok:13a"} <= set(cased)
    assert {"bs:1000", "seed:12345", "case:lc", "tok:13a"} <= set(lowercased)


def test_a_difference_as_plain_as_day_is_hardly_chance_and_noise_may_be() -> None:
    _, bad, as_good = paired_bootstrap([GOOD, BAD, AS_GOOD], REFERENCES, BLEU())
    assert bad.p_value == pytest.approx(1 / (SAMPLES + 1))
    assert as_good.p_value is not None
    assert 0.05 < as_good.p_value < 1


def test_equal_outputs_do_not_differ() -> None:
    first, same = paired_bootstrap([GOOD, list(GOOD)], REFERENCES, BLEU())
    assert first.p_value is None
    assert same.p_value == 1
    assert same.half_width == first.half_width


def test_one_sentence_proves_nothing() -> None:
    found = paired_bootstrap([GOOD[:1], BAD[:1]], REFERENCES[:1], BLEU())
    assert [each.p_value for each in found] == [None, None]


def test_outputs_that_differ_in_case_differ_in_cased_bleu_only() -> None:
    systems = [GOOD, [line.lower() for line in GOOD]]
    cased = paired_bootstrap(systems, REFERENCES, BLEU())[1]
    lowercased = paired_bootstrap(systems, REFERENCES, BLEU(lowercase=True))[1]
    assert cased.p_value is not None
    assert cased.p_value < 0.01
    assert lowercased.p_value == 1


def test_order_moves_results_and_changes_none() -> None:
    one_way = paired_bootstrap([GOOD, AS_GOOD, BAD], REFERENCES, BLEU(lowercase=True))
    other_way = paired_bootstrap([AS_GOOD, BAD, GOOD], REFERENCES, BLEU(lowercase=True))
    widths = [each.half_width for each in one_way]
    assert [each.half_width for each in other_way] == [widths[1], widths[2], widths[0]]
    # A difference is the same from both sides.
    assert other_way[2].p_value == one_way[1].p_value


def test_other_systems_change_nothing() -> None:
    alone = paired_bootstrap([GOOD, AS_GOOD], REFERENCES, BLEU())
    among = paired_bootstrap([GOOD, BAD, AS_GOOD], REFERENCES, BLEU())
    assert among[0] == alone[0]
    assert among[2] == alone[1]


@pytest.mark.parametrize("seed", ["7", "none", "not a number"])
def test_the_environments_seed_is_not_looked_at_and_stays(
    monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    expected = paired_bootstrap([GOOD, AS_GOOD], REFERENCES, BLEU())
    assert "SACREBLEU_SEED" not in os.environ
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    assert paired_bootstrap([GOOD, AS_GOOD], REFERENCES, BLEU()) == expected
    assert os.environ["SACREBLEU_SEED"] == seed


def test_systems_that_say_nothing_are_equally_bad() -> None:
    empty = [""] * len(REFERENCES)
    for resampled in paired_bootstrap([empty, empty], REFERENCES, BLEU()):
        assert resampled.half_width == 0
        assert resampled.p_value in (None, 1)


# --- scores of one system -------------------------------------------------------------------------


@pytest.mark.parametrize("lowercase", [False, True])
def test_a_single_score_has_the_same_interval_as_among_others(lowercase: bool) -> None:
    measured = measure(BLEU(lowercase=lowercase), GOOD, REFERENCES)
    beside = paired_bootstrap([BAD, GOOD], REFERENCES, BLEU(lowercase=lowercase))
    assert measured.half_width == pytest.approx(beside[1].half_width)
    assert measured.signature == beside[1].signature
    assert measured.value == BLEU(lowercase=lowercase).corpus_score(GOOD, [REFERENCES]).score


@pytest.mark.parametrize("metric", [CHRF, TER])
def test_intervals_of_other_metrics_are_sacrebleus(metric: type[CHRF] | type[TER]) -> None:
    mixed = GOOD[:30] + BAD[30:]
    measured = measure(metric(), mixed, REFERENCES)
    own = metric()
    alone = own.corpus_score(mixed, [REFERENCES], n_bootstrap=SAMPLES)
    assert measured.value == alone.score
    assert measured.half_width == pytest.approx(alone._ci)
    assert measured.half_width is not None
    assert measured.half_width > 0
    assert measured.signature == str(own.get_signature())


def test_of_very_many_sentences_there_is_a_score_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = measure(BLEU(), GOOD, REFERENCES)
    monkeypatch.setattr(scores, "MAX_SENTENCES", len(GOOD) - 1)
    many = measure(BLEU(), GOOD, REFERENCES)
    assert many.half_width is None
    assert many.value == few.value
    assert "bs:" not in many.signature

"""Statistics over seeds and sentences: against scipy and statsmodels, and in simulations."""

from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from extensions.experiments.null_effects import VARIANCES, World, significant_bleu
from transformer_cli.evaluation.scores import score
from transformer_cli.extensions.experiments.seed_statistics import (
    compare_groups,
    compare_means,
    score_sentences,
    summarize,
)

REFERENCES = [
    f"a {color} {animal} {verb} through the tall grass of the old garden"
    for color in ("black", "white", "brown")
    for animal in ("dog", "cat", "horse", "cow")
    for verb in ("runs", "jumps")
]


def translations_of(groups: Sequence[int], good: float = 0.5) -> list[list[list[str]]]:
    """Draw translations: each word is correct, in capitals, or another word."""
    rng = np.random.default_rng(3)

    def translate(reference: str) -> str:
        words = [(word, word.upper(), "thing") for word in reference.split()]
        chances = (good, (1 - good) / 2, (1 - good) / 2)
        return " ".join(word[rng.choice(3, p=chances)] for word in words)

    return [[[translate(each) for each in REFERENCES] for _ in range(seeds)] for seeds in groups]


# --- by independent computation -------------------------------------------------------------------


def test_scores_and_signatures_equal_evaluates() -> None:
    translations = translations_of((3, 2))
    compared = compare_groups(translations, REFERENCES)
    expected = [[score(each, REFERENCES) for each in group] for group in translations]
    assert list(compared) == ["bleu", "bleu_lc", "chrf"]
    for name, metric in compared.items():
        scores = [[run[name].value for run in group] for group in expected]
        assert [each.scores for each in metric.groups] == scores
        assert metric.signature == expected[0][0][name].signature


def test_mean_and_interval_are_students() -> None:
    from scipy import stats

    scores = [37.7, 38.1, 37.2, 37.9]
    found = summarize(scores)
    low, high = stats.t.interval(0.95, 3, np.mean(scores), stats.sem(scores))
    assert found.mean - (found.half_width or 0) == pytest.approx(low)
    assert found.mean + (found.half_width or 0) == pytest.approx(high)
    assert found.deviation == pytest.approx(stats.tstd(scores))


def test_shares_of_sentences_are_the_jackknifes() -> None:
    from scipy import stats

    hypotheses = translations_of((1,))[0][0]
    whole, shares = score_sentences(BLEU(references=[REFERENCES]), hypotheses)
    assert shares.mean() == pytest.approx(whole)
    without = [
        BLEU()
        .corpus_score(
            hypotheses[:number] + hypotheses[number + 1 :],
            [REFERENCES[:number] + REFERENCES[number + 1 :]],
        )
        .score
        for number in range(len(REFERENCES))
    ]
    # The jackknife's standard error (Efron and Tibshirani 1993, chapter 11).
    expected = ((len(without) - 1) * np.var(without)) ** 0.5
    assert stats.sem(shares) == pytest.approx(expected)


def test_if_sentences_do_not_matter_it_is_welchs_test() -> None:
    from scipy import stats

    # Each seed has the same points in all sentences, so only seeds vary.
    rng = np.random.default_rng(5)
    seeds = rng.normal(size=(2, 50, 1)) + np.array([0.0, 0.4]).reshape(2, 1, 1)
    found = compare_means(*(np.repeat(each, 10, 1) for each in seeds))
    expected = stats.ttest_ind(*seeds[..., 0], equal_var=False)
    interval = expected.confidence_interval()
    assert found.p_value == pytest.approx(expected.pvalue, rel=0.01)
    assert found.half_width == pytest.approx((interval.high - interval.low) / 2, rel=0.01)


def test_if_seeds_do_not_matter_it_is_the_paired_test_over_sentences() -> None:
    from scipy import stats

    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(2, 1, 200)) + 10 * rng.normal(size=200)
    second += first.mean() - second.mean() + 0.2
    found = compare_means(np.repeat(first, 3, 0), np.repeat(second, 3, 0))
    expected = stats.ttest_rel(first[0], second[0])
    assert found.difference == pytest.approx(-0.2)
    assert found.p_value == pytest.approx(expected.pvalue, rel=0.02)


@pytest.mark.long
def test_holms_correction_is_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests  # takes a second

    for metric in compare_groups(translations_of((4, 3, 3, 3, 1, 3)), REFERENCES).values():
        differences = [group.difference for group in metric.groups]
        assert differences[0] is None
        tested = [each for each in differences if each and each.p_value is not None]
        assert len(tested) == 4
        expected = multipletests([each.p_value for each in tested], method="holm")[1]
        assert [each.p_holm for each in tested] == pytest.approx(list(expected))


# --- by simulation --------------------------------------------------------------------------------

# null_effects.py runs 10,000 experiments per case, which take minutes. These bounds are 4 % and 6
# %, widened for only 2,000 experiments. Fewer sentences are faster, and conservative.


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(each, marks=pytest.mark.long) for each in ((3, 5), (3, 3), (5, 5))],
)
@pytest.mark.parametrize(
    "name",
    [
        "seeds, large, and sentences",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("none", "sentences", "seeds")),
    ],
)
def test_null_effects_are_significant_in_five_percent(seeds: tuple[int, int], name: str) -> None:
    assert 3.2 < World(seeds, 200, *VARIANCES[name]).significant(2000) < 6.9


@pytest.mark.long
def test_null_effects_of_bleu_are_significant_in_five_percent() -> None:
    assert 2.0 < significant_bleu(400, (3, 3), 60, (0.1, 0.5)) < 8.5


# --- what cannot be tested ------------------------------------------------------------------------


def test_single_runs_have_scores_and_differences_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # They do not need scipy either.
    monkeypatch.setattr("transformer_cli.extensions.experiments.seed_statistics.import_extra", None)
    for metric in compare_groups(translations_of((1, 1)), REFERENCES).values():
        first, second = metric.groups
        assert (first.mean, first.deviation, first.half_width) == (first.scores[0], None, None)
        found = second.difference
        assert found is not None
        assert found.difference == pytest.approx(second.mean - first.mean)
        assert (found.half_width, found.p_value, found.p_holm) == (None, None, None)


def test_a_single_run_among_groups_does_not_change_their_test() -> None:
    groups = translations_of((3, 1, 3))
    _, single, beside = compare_groups(groups, REFERENCES)["bleu"].groups
    _, alone = compare_groups([groups[0], groups[2]], REFERENCES)["bleu"].groups
    assert beside == alone
    assert single.difference is not None
    assert single.difference.p_value is None


def test_equal_outputs_do_not_differ() -> None:
    one = translations_of((1,))[0] * 3
    for metric in compare_groups([one, one], REFERENCES).values():
        found = metric.groups[1].difference
        assert found is not None
        assert (found.difference, found.p_value) == (0.0, 1.0)


def test_one_sentence_that_all_seeds_translate_otherwise_proves_little() -> None:
    one = translations_of((1,))[0][0]
    other = [REFERENCES[0], *one[1:]]
    found = compare_groups([[one] * 3, [other] * 3], REFERENCES)["bleu"].groups[1].difference
    assert found is not None
    assert found.p_value is not None
    assert found.p_value > 0.05


def test_one_sentence_is_no_text() -> None:
    groups = [[["a b c d"], ["a b c"]], [["a b"], ["a"]]]
    found = compare_groups(groups, ["a b c d"])["bleu"].groups[1].difference
    assert found is not None
    assert found.p_value is None

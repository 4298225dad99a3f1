import pytest

from transformer_cli.extensions.report.charts import (
    RarityBucket,
    count_words,
    score_by_length,
    score_by_rarity,
)


def test_words_are_found_by_how_rare_they_are() -> None:
    seen = {"the": 1000, "cat": 9, "sat": 10}
    hypotheses = ["The cat sat.", "a dog"]
    references = ["the cat: the dog!", "Sat a dog"]
    # 'dog' of the second sentence is found, that of the first is not; 'the' is twice in the
    # reference and once in the translation; 'sat' is in the other sentence's translation.
    assert score_by_rarity(seen, hypotheses, references) == [
        RarityBucket("never", words=3, found=2),  # dog, dog, a
        RarityBucket("1–9", words=1, found=1),
        RarityBucket("10–99", words=1, found=0),
        RarityBucket("1,000+", words=2, found=1),
    ]
    assert RarityBucket("1–9", words=3, found=2).recall == pytest.approx(66.667, abs=1e-3)


def test_a_word_too_many_in_the_translation_is_not_found_twice() -> None:
    assert score_by_rarity({}, ["cat cat cat"], ["a cat"]) == [
        RarityBucket("never", words=2, found=1)
    ]


def test_only_words_of_the_references_are_counted() -> None:
    counted = count_words(["A cat, a dog", "no CAT"], ["the cat's a cat"])
    assert counted == {"a": 2, "cat": 2}


def test_sentences_fall_into_buckets_by_their_length() -> None:
    good = "a man is in the street"
    buckets = score_by_length([5, 6, 0, 61, 10], [good, good, "x", good, "y"], [good] * 5)
    assert [(each.label, each.sentences) for each in buckets] == [
        ("1–5", 2),
        ("6–10", 2),
        ("61+", 1),
    ]
    assert buckets[2].scores == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert buckets[0].scores["chrf"] < 100.0
    assert buckets[1].scores["bleu"] < 100.0

"""Noise: rules, in training with reproducible draws, and in ``evaluate --perturb``."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from hypothesis import given, strategies as st
from prepared_text import ids, prepared, stored

from transformer_cli.base import registry
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.noise.noisy_text import NoisyText
from transformer_cli.extensions.noise.rules import Context, Pair
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import UNK_ID

RULES = registry.all_entries("noise rule")
PAIR = Pair("Fünf Leute sitzen müde auf der Straße.", "Five people sit on the street.")
OTHER = Pair("Ein Hund.", "A dog.")


def changed(name: str, pair: Pair = PAIR, seed: int = 1, languages: str = "de en") -> Pair:
    rule = RULES[name].load()
    src_lang, tgt_lang = languages.split()
    return Pair(*rule(pair, Context(src_lang, tgt_lang, Random(seed), OTHER)))


@pytest.mark.parametrize(
    ("name", "src", "tgt"),
    [
        ("all_caps", "FÜNF LEUTE SITZEN MÜDE AUF DER STRASSE.", "FIVE PEOPLE SIT ON THE STREET."),
        ("no_caps", "fünf leute sitzen müde auf der straße.", PAIR.tgt),
        ("title_case", "Fünf Leute Sitzen Müde Auf Der Straße.", PAIR.tgt),
        ("no_diacritics", "Fuenf Leute sitzen muede auf der Strasse.", PAIR.tgt),
        ("no_punctuation", PAIR.src[:-1], PAIR.tgt[:-1]),
        ("two_sentences", f"{PAIR.src} Ein Hund.", f"{PAIR.tgt} A dog."),
    ],
)
def test_what_a_rule_writes(name: str, src: str, tgt: str) -> None:
    assert changed(name) == (src, tgt)


def test_rules_that_draw() -> None:
    quotes = {changed("in_quotes", seed=seed) for seed in range(9)}
    assert quotes == {(f'"{PAIR.src}"', f'"{PAIR.tgt}"'), (f"„{PAIR.src}“", f"“{PAIR.tgt}”")}
    src, tgt = changed("emoji")
    assert src.removeprefix(PAIR.src) == tgt.removeprefix(PAIR.tgt)
    assert len(src) == len(PAIR.src) + 2
    typos = {changed("typos", seed=seed) for seed in range(99)}
    assert {each.tgt for each in typos} == {PAIR.tgt}
    assert {abs(len(each.src) - len(PAIR.src)) for each in typos} >= {0, 1}
    spaces = {changed("wrong_spaces", seed=seed).src for seed in range(99)}
    assert {each.replace(" ", "") for each in spaces} == {PAIR.src.replace(" ", "")}


def test_a_source_without_capitals_has_a_target_without() -> None:
    pair = Pair("我喜欢吃苹果。", "I like apples.")
    assert changed("all_caps", pair, languages="zh en") == pair


def test_only_accents_are_left_out() -> None:
    assert changed("no_diacritics", Pair("Été™ Ⅷ", "x"), languages="fr en").src == "Ete™ Ⅷ"


def test_languages_have_their_own_letters_and_keys() -> None:
    assert changed("no_diacritics", Pair("Élève, ça", "x"), languages="fr en").src == "Eleve, ca"
    assert changed("no_diacritics", Pair("Мой", "x"), languages="ru en").src == "Мой"
    typos = {changed("typos", Pair("привет", "x"), seed, "ru en").src for seed in range(99)}
    assert len(typos) > 9
    assert all("а" <= letter <= "я" for each in typos for letter in each)


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(sorted(RULES)), st.integers(0))
def test_every_rule_changes_any_pair_reproducibly(src: str, tgt: str, name: str, seed: int) -> None:
    first, second = (changed(name, Pair(src, tgt), seed) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", sorted(RULES))
def test_verbatim_parts_stay(name: str) -> None:
    pair = Pair('Leute <a href="x y">lesen</a> https://example.org/Ära', "Polite people read %s")
    for seed in range(9):
        src, tgt = changed(name, pair, seed)
        assert "https://example.org/Ära" in src
        assert '<a href="x y">' in src
        assert "%s" in tgt


# --- in training ----------------------------------------------------------------------------------


def noisy(tmp_path: Path, shares: dict[str, float], **settings: Any) -> tuple[Any, NoisyText]:
    pairs = [PAIR, OTHER, *((f"Hund {n} läuft.", f"Dog {n} runs.") for n in range(98))]
    tmp_path.mkdir(exist_ok=True)
    data = prepared(RunDirectory(tmp_path / "run"), pairs, pairs[:2], **settings)[1]
    max_length = settings.pop("max_length", 99)
    return stored(data), NoisyText(shares, ("de", "en"), data.tokenizers, max_length)


def test_shares_of_the_pairs_change_and_the_seed_decides_which(tmp_path: Path) -> None:
    text, noise = noisy(tmp_path, {"two_sentences": 0.2, "no_caps": 0.3}, tokenizer=CHARACTERS)
    before = ids(text.src)
    first, again, other = (ids(noise(text, seed).src) for seed in (1, 1, 2))
    assert first == again != other
    different = sum(old != new for old, new in zip(before, first, strict=True))
    assert 35 <= different <= 65
    longer = sum(len(new) > len(old) + 2 for old, new in zip(before, first, strict=True))
    assert 10 <= longer <= 30


CHARACTERS = {"kind": "sentencepiece", "vocab_size": 330, "joint": True}


def test_pairs_with_unknown_words_or_too_many_tokens_stay(tmp_path: Path) -> None:
    text, noise = noisy(tmp_path, {"two_sentences": 0.99})
    sides = zip(ids(text.src), ids(noise(text, 1).src), strict=True)
    assert all(old == new for old, new in sides if UNK_ID in old)
    text, noise = noisy(tmp_path / "short", {"two_sentences": 0.99}, tokenizer=CHARACTERS)
    noise._max_length = 5
    assert ids(noise(text, 1).src) == ids(text.src)


def test_targets_get_no_unknown_words(tmp_path: Path) -> None:
    text, noise = noisy(tmp_path, {"emoji": 0.99})
    before, after = ids(text.tgt), ids(noise(text, 1).tgt)
    assert [UNK_ID in side for side in before] == [UNK_ID in side for side in after]


def test_tagged_pairs_change_and_keep_their_tags(tmp_path: Path) -> None:
    text, noise = noisy(tmp_path, {"two_sentences": 0.99}, tokenizer=CHARACTERS)
    tags = [401 + number % 2 for number in range(len(text))]
    src = TokenArray.from_sentences(
        [tag, *side] for tag, side in zip(tags, ids(text.src), strict=True)
    )
    of_text: Any = noise._tokenizers.src
    tagging: Any = SimpleNamespace(
        source_ids=(401, 402), text_size=400, encode=of_text.encode, decode=of_text.decode
    )
    noise._tokenizers = replace(noise._tokenizers, src=tagging)
    changed = ids(noise(EncodedText(src, text.tgt), 1).src)
    assert [side[0] for side in changed] == tags
    longer = [len(new) > len(old) for new, old in zip(changed, ids(src), strict=True)]
    assert 20 < sum(longer) < 80  # about half of the pairs get one with the same tag


def test_unknown_kinds_and_too_large_shares_are_errors(config: Path) -> None:
    command = ("train", config, "--set")
    assert_refused(run(*command, "training.noise={typo: 0.1}"), 2, "did you mean 'typos'?")
    shares = "training.noise={typos: 0.9, in_quotes: 0.2}"
    assert_refused(run(*command, shares), 2, "the shares add up to 1.1; at most 1 is possible")


# --- in evaluate ----------------------------------------------------------------------------------


def test_evaluate_and_report_score_each_kind_of_noise(training: Training, tmp_path: Path) -> None:
    finished = run("evaluate", training.run, "--perturb", "--json")
    assert finished.code == 0, finished.err
    report = json.loads(finished.out)
    assert report["perturbed"].keys() == RULES.keys()
    assert report["perturbed"]["typos"].keys() == {"bleu", "bleu_lc", "chrf"}
    table = run("evaluate", training.run, "--perturb").out.splitlines()
    assert [line.split()[0] for line in table[-len(RULES) :]] == list(RULES)
    page = tmp_path / "page.html"
    assert run("report", training.run, "--perturb", "-o", page).code == 0
    assert "\n".join(table[-len(RULES) :]) in page.read_text(encoding="utf-8")


def test_compare_scores_each_kind_of_noise(training: Training, own_run: Path) -> None:
    finished = run("compare", training.run, own_run, "--perturb", "--json")
    assert finished.code == 0, finished.err
    report = json.loads(run("evaluate", training.run, "--perturb", "--json").out)
    compared = json.loads(finished.out)["splits"]
    assert {each["split"] for each in compared} == {report["split"]}
    texts = {each.get("variation"): each["runs"] for each in compared}
    assert list(texts) == [None, *RULES]
    for rule, scores in report["perturbed"].items():
        for of_run in texts[rule]:
            values = {metric: each["value"] for metric, each in of_run["scores"].items()}
            assert values == {metric: each["value"] for metric, each in scores.items()}

import functools
import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from transformer_cli.base.errors import ConfigError
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer

ENGLISH = [
    "A man in a T-shirt doesn't look at the dog's ball.",
    "They're 20 years old, aren't they?",
    "We cannot see state-of-the-art, blue-and-white boats.",
    'The sign reads "Open 24 hours", I think.',
    'She said: "Stop!"',
    "A sign says 'free dinner' on it.",
    "A man looks at the boys' bikes.",
    "He said “It’s fine.” and left; she didn’t.",
    "Player #19 (in red) wins 3.5 points and $20.",
    "A child/adult pair waits at 10:30 – or later …",
    "Dogs, cats & birds: all of them!",
    "(A man sits.)",
]
GERMAN = [
    "Ein Mann im T-Shirt spielt auf dem Kinder-Spielplatz.",
    "Eine 25-jährige Frau hält ein Schild mit der Aufschrift „Hallo Welt!“ hoch.",
    "Geht's dir gut, Hans?",
    "Ein/e Student/in liest; der/die andere schläft.",
    "Zwei Kinder – ein Junge und ein Mädchen – laufen.",
    "Das Essen, z. B. Brot, kostet 3,50 € pro Stück.",
    "Sie sagt: „Wir sind alle hier.“",
    "Mickey Maus' Nase ist rot-weiß.",
    "Im »Haus am See« sitzen ca. 1.000 Gäste.",
    "Was ist das?!",
    "Vorder- und Rückseite (beide) sind blau.",
    'Auf dem Schild steht "Halt".',
]


# One of each kind: spaCy takes seconds for the rules of some languages.
words_of = functools.cache(SpacyWords)


def tokenizer_for(lines: list[str], rules: str, language: str, lowercase: bool) -> WordsTokenizer:
    words = words_of(rules, language, lowercase)
    return WordsTokenizer(words, Vocabulary.from_counts(words.count(lines)))


@pytest.mark.parametrize(
    ("language", "line"), [("en", line) for line in ENGLISH] + [("de", line) for line in GERMAN]
)
@pytest.mark.parametrize("lowercase", [False, True])
def test_sentences_come_back_as_they_were_written(
    language: str, line: str, lowercase: bool
) -> None:
    tokenizer = tokenizer_for([line], language, language, lowercase)
    assert tokenizer.decode(tokenizer.encode(line)) == (line.lower() if lowercase else line)


@pytest.mark.parametrize("line", [line for line in ENGLISH if "n't" not in line][:4])
def test_general_rules_come_back_too(line: str) -> None:
    tokenizer = tokenizer_for([line], "xx", "en", False)
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_english_parts_are_words() -> None:
    words = SpacyWords("en", "en", lowercase=False)
    assert words.split("A T-shirt  doesn't fit.") == [
        "A", "T", "-", "shirt", "does", "n't", "fit", ".",
    ]  # fmt: skip


def test_rules_see_the_case_that_was_written() -> None:
    cased, lowercased = SpacyWords("en", "en", False), SpacyWords("en", "en", True)
    line = "He lives in the U.S. on 3rd St. now."
    assert lowercased.split(line) == [word.lower() for word in cased.split(line)]
    assert "u.s." in lowercased.split(line)


def test_unknown_words_are_written_as_such_and_take_hyphens() -> None:
    words = SpacyWords("en", "en", lowercase=False)
    tokenizer = WordsTokenizer(words, Vocabulary(["A", "-", "haired", "man", "'s", "dog", "."]))
    ids = tokenizer.encode("A red-haired boy's dog.")
    assert ids == [4, UNK_ID, 5, 6, UNK_ID, 8, 9, 10]
    assert tokenizer.decode(ids) == "A <unk>-haired <unk>'s dog."


def test_marks_of_sentences_are_not_written() -> None:
    tokenizer = tokenizer_for(["Ein Hund."], "de", "de", False)
    ids = tokenizer.encode("Ein Hund.")
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "Ein Hund."
    assert tokenizer.decode([BOS_ID, EOS_ID]) == ""


@pytest.mark.parametrize("typed", ["<unk>", "<BOS>", "<EOS>", "<PAD>"])
def test_specials_typed_in_text_stay_text(typed: str) -> None:
    tokenizer = tokenizer_for([f"ein {typed} hier"], "de", "de", False)
    assert not {BOS_ID, EOS_ID, PAD_ID} & set(tokenizer.encode(f"{typed} ein {typed}"))


ANY_LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"))
AWKWARD_LINE = st.text(st.sampled_from("ab1 -/'\"“”„«»’‘.,!([)]#\t\u2028\x00ʼß日–"))
CODES = ["de", "en", "xx", "fr", "cs", "fi", "zh"]


@pytest.mark.long
@given(line=ANY_LINE | AWKWARD_LINE, code=st.sampled_from(CODES))
def test_any_line_goes_through(line: str, code: str) -> None:
    words = words_of(code, code, True)
    tokenizer = WordsTokenizer(words, Vocabulary.from_counts(words.count([line])))
    ids = tokenizer.encode(line)
    assert UNK_ID not in ids
    decoded = tokenizer.decode(ids)
    assert "\n" not in decoded
    # Nothing but white space is ever gained or lost.
    assert "".join(decoded.split()) == "".join(words.split(line))


@pytest.mark.long
@given(ids=st.lists(st.integers(0, 40)))
def test_any_output_of_a_model_is_text(ids: list[int]) -> None:
    marks = ["'", '"', "“", "”", "„", "«", "»", "‘", "’", "-", "/", "#", "(", ")", ".", ",", "!"]
    parts = ["n't", "'s", "’s", "l'", "a", "Kinder", "5", "%", "€", "…", "…)", "a.b", "&", "@-@"]
    more = ["[", "]", "x", "can", "not", "–"]
    vocabulary = Vocabulary(marks + parts + more)
    tokenizer = WordsTokenizer(words_of("en", "en", True), vocabulary)
    assert "\n" not in tokenizer.decode([number for number in ids if number < len(vocabulary)])


@pytest.mark.parametrize("code", ["qq", "ja", "th"])
def test_languages_without_rules_are_refused_in_one_line(code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SpacyWords(code, code, lowercase=False)
    assert f"'{code}'" in str(caught.value)
    assert "tokenizer.src_rules" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_output_language_that_sacremoses_does_not_know() -> None:
    words = SpacyWords("xx", "tlh", lowercase=False)
    assert words.join(words.split("nuqneH , (tlhIngan)!")) == "nuqneH, (tlhIngan)!"


def multi30k() -> Path | None:
    directory = Path(os.environ.get("MULTI30K_DIR", "data/multi30k"))
    return directory if (directory / "val.de.gz").exists() else None


@pytest.mark.long
@pytest.mark.multi30k
@pytest.mark.parametrize("language", ["de", "en"])
def test_multi30k_comes_back_as_it_was_written(language: str) -> None:
    directory = multi30k()
    if directory is None:
        pytest.skip("no Multi30k files")
    text = gzip.decompress((directory / f"val.{language}.gz").read_bytes()).decode("utf-8")
    lines = text.removesuffix("\n").split("\n")
    tokenizer = tokenizer_for(lines, language, language, False)
    exact = sum(tokenizer.decode(tokenizer.encode(line)) == line for line in lines)
    assert exact / len(lines) > 0.99


@pytest.mark.long
def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    words = SpacyWords("de", "de", lowercase=False)
    strings = words._pipeline.vocab.strings
    fresh = len(strings)
    monkeypatch.setattr("transformer_cli.text.words._MAX_STRINGS", fresh + 50)
    most = 0
    for number in range(300):
        line = f"Wort{number:x}a und Wort{number:x}b"
        assert words.join(words.split(line)) == line
        most = max(most, len(words._pipeline.vocab.strings))
    # The limit is looked at before a line, which may add a few.
    assert most <= fresh + 60

"""Casing: learned from text, restored in unusual lines, and only there."""

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from prepared_text import prepared

from transformer_cli.extensions.corpora.tagged_line import TaggedLine
from transformer_cli.extensions.truecasing import kind, learning
from transformer_cli.extensions.truecasing.casing import restore
from transformer_cli.extensions.truecasing.learning import learn_casing
from transformer_cli.extensions.truecasing.lines import casing_of, to_lower, to_upper
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.lines import stream_lines
from transformer_cli.text.tokenizer import load_manifest, load_tokenizers

LINES = [
    "Der Hund läuft auf der Straße.",
    "Ein Hund und eine Katze spielen auf der Straße.",
    "Maria sieht den Hund und die NATO. Sie sieht auch die Katze.",
    "Man sieht hier Maria, die NATO und den Fußball.",
]


def restored(line: str, language: str = "de", lines: list[str] = LINES) -> str:
    written = casing_of(line)
    record = {**learn_casing(lines, language), "src_lang": language}
    return line if written is None else restore(line, written, record)


def title(line: str) -> str:
    return re.sub(r"(?<!\w)\w", lambda letter: letter[0].upper(), line)


@pytest.mark.parametrize("change", [str.upper, str.lower])
@pytest.mark.parametrize("line", LINES)
def test_lines_in_capitals_or_without_get_their_casing_back(
    line: str, change: Callable[[str], str]
) -> None:
    assert restored(change(line)) == line


def test_capitals_in_each_word_go_where_text_has_none() -> None:
    line = "Ein Hund und die Katze sieht auch Maria auf der Straße."
    assert restored(title(line)) == line


@pytest.mark.parametrize(
    "line",
    [
        *LINES,
        "HUND",
        "NATO NATO",  # capitals are its usual casing
        "Die Katze Auf Maria",  # a title
        "hund",
        "2 katzen",
        "犬が 走る 公園",
        "कुत्ता सड़क पर दौड़ता है",
        "الكلب يجري في الشارع",
        "42 17 3",
        "",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert restored(line) is line


def test_verbatim_parts_keep_their_case_on_both_sides() -> None:
    line = "DER HUND SIEHT <b>MARIA</b> auf https://example.org/Katze UND %s"
    assert restored(line) == "Der Hund sieht <b>Maria</b> auf https://example.org/Katze und %s"


def test_a_number_in_front_leaves_no_place_for_a_capital() -> None:
    assert restored("3 SIEHT DER HUND.") == "3 sieht der Hund."


def test_unknown_words_are_written_as_words_with_the_same_ending() -> None:
    nouns = ["Zeitung", "Wohnung", "Heizung", "Leitung", "Zahlung"]
    verbs = ["spielten", "fragten", "sagten", "lachten", "kochten"]
    text = [f"Heute {verb} wir eine {noun}." for noun, verb in zip(nouns, verbs, strict=True)]
    assert restored("DA KAUFTEN WIR EINE SENDUNG.", lines=text) == "Da kauften wir eine Sendung."


def test_letters_and_their_accents_may_be_separate_characters() -> None:
    separate = unicodedata.normalize("NFD", "DER HUND LÄUFT AUF DER STRASSE.")
    assert restored(separate) == "Der Hund läuft auf der Straße."
    ordinary = unicodedata.normalize("NFD", "Der Hund läuft auf der Straße.")
    assert restored(ordinary) is ordinary


def test_two_words_in_capitals_are_enough() -> None:
    assert restored("DER HUND!") == "Der Hund!"


def test_turkish_has_its_own_capitals() -> None:
    text = ["Bu kız ışıkta dans ediyor ve İzmir bu ilde."] * 2
    assert to_upper("ılık iz", "tr") == "ILIK İZ"
    assert to_lower("ILIK İZ", "tr") == "ılık iz"
    line = "Bu ışıkta dans ediyor ve İzmir."
    assert restored(to_upper(line, "tr"), "tr", text) == line


def test_the_table_is_limited_to_frequent_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_BYTES", 12)
    words = learn_casing(["So viel viel viel von von selten."], "de")["words"]
    assert words == "viel von"


@given(st.text(alphabet="aBc äÖß.,!1", max_size=60))
def test_any_line_is_restored_to_the_same_letters(line: str) -> None:
    assert restored(line).upper() == line.upper()


@pytest.mark.multi30k
@pytest.mark.parametrize("language", ["de", "en"])
def test_no_ordinary_caption_changes(language: str) -> None:
    train, test = (
        [*stream_lines(Path(os.environ["MULTI30K_DIR"]) / f"{name}.{language}.gz")]
        for name in ("train", "test_2016_flickr")
    )
    record = {**learn_casing(train[:5000], language), "src_lang": language}
    unusual = [(line, written) for line in test if (written := casing_of(line)) is not None]
    assert [line for line, written in unusual if restore(line, written, record) is not line] == []


# --- the codec ------------------------------------------------------------------------------------

PAIRS = [(line, line) for line in LINES]
WORDS = {"kind": "words", "min_freq": 1}


def test_a_run_restores_lines_and_writes_capitals(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    tokenizers = prepared(run, PAIRS, PAIRS)[1].tokenizers
    line = LINES[0]
    ordinary, unusual = map(tokenizers.encode_source, (line, line.upper()))
    assert unusual.ids == ordinary.ids
    (capitalizer,) = tokenizers.revisers
    copied = EncodedLine(line.upper(), unusual, [], is_copied=True)
    encoded = [EncodedLine(line, ordinary, []), EncodedLine(line.upper(), unusual, []), copied]
    found = [[Translation("The <b>street</b>.")]] * 3
    revised = capitalizer.revise(None, encoded, found, None, None)
    expected = ["The <b>street</b>.", "THE <b>STREET</b>.", "The <b>street</b>."]
    assert [best.text for (best,) in revised] == expected
    assert load_tokenizers(run.tokenizer).encode_source(line.upper()).ids == ordinary.ids


def test_a_restored_line_keeps_its_tag(tmp_path: Path) -> None:
    tokenizers = prepared(RunDirectory(tmp_path / "run"), PAIRS, PAIRS)[1].tokenizers
    source = tokenizers.encode_source(TaggedLine(LINES[0].upper(), "news")).line
    assert source == LINES[0]
    assert isinstance(source, TaggedLine)
    assert source.tag == "news"


@pytest.mark.parametrize("setting", [{"truecase": False}, {"lowercase": True}])
def test_settings_turn_it_off(tmp_path: Path, setting: dict[str, bool]) -> None:
    run = RunDirectory(tmp_path / "run")
    tokenizers = prepared(run, PAIRS, PAIRS, WORDS | setting)[1].tokenizers
    assert tokenizers.revisers == ()
    assert load_manifest(run.tokenizer).codecs == {}


def test_a_run_that_continues_one_without_a_table_has_none(tmp_path: Path) -> None:
    old, new = RunDirectory(tmp_path / "old"), RunDirectory(tmp_path / "new")
    prepared(old, PAIRS, PAIRS, WORDS | {"truecase": False})
    tokenizers = prepared(new, PAIRS, PAIRS, WORDS, init=old)[1].tokenizers
    assert tokenizers.revisers == ()


@pytest.mark.parametrize("record", [None, [], {"words": "a"}, {"src_lang": 1, "tgt_lang": "de"}])
def test_a_damaged_record_is_an_error(record: object) -> None:
    with pytest.raises(ValueError, match="casing"):
        kind.KIND.check(record)

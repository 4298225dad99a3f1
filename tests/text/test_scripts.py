import pytest

from transformer_cli.text.scripts import (
    ScriptCheck,
    are_close,
    has_case,
    has_letters,
    has_spaces,
    is_blank,
    script_of,
    scripts_of,
)
from transformer_cli.text.words import SpacyWords


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Füße, Straßen und Ｆｕｌｌｗｉｄｔｈ"),
        ("ru", "Ёлка и собака"),
        ("el", "Η γάτα κοιμάται"),
        ("ar", "كلب أسود يركض"),
        ("he", "כלב שחור"),
        ("hi", "एक काला कुत्ता"),
        ("zh", "一只黑狗在奔跑"),
        ("zh-Hant", "一隻黑狗"),
        ("ja", "黒い犬がカーテンとｶｰﾃﾝのそばを走る"),
        ("ko", "검은 개가 달린다"),
        ("th", "สุนัขสีดำ"),
        ("ka", "შავი ძაღლი"),
        ("sr", "Црни пас i crni pas"),
    ],
)
def test_a_languages_own_letters_are_of_its_scripts(language: str, text: str) -> None:
    scripts = scripts_of(language)
    assert scripts is not None
    found = {script_of(character) for character in text} - {None}
    assert found
    assert found <= scripts


def test_languages_of_other_scripts_share_none() -> None:
    for one, other in (("de", "ru"), ("zh", "ko-KP"), ("hi", "bn"), ("ar", "he")):
        first, second = scripts_of(one), scripts_of(other)
        assert first
        assert second
        assert (first & second) == ({"CJK"} if one == "zh" else set())


def test_what_is_no_letter_or_of_no_script_has_none() -> None:
    assert [script_of(character) for character in " .5€µªー!\u0301"] == [
        *[None] * 6,
        "KATAKANA",
        None,
        None,
    ]


def test_a_language_that_is_not_known_has_no_scripts() -> None:
    assert scripts_of("tlh") is None
    assert scripts_of("pt_BR") == scripts_of("pt") == frozenset({"LATIN"})


def test_which_languages_have_spaces_and_case() -> None:
    assert {
        each for each in ("zh-TW", "zh_Hans", "cmn", "jpn", "th", "my", "bo") if has_spaces(each)
    } == set()
    assert all(map(has_spaces, ("ko", "kor", "de", "ar", "hi", "vi", "xx")))
    assert not any(map(has_case, ("zh", "ja-JP", "ko", "ar", "arb", "he", "hi", "th", "ka")))
    assert all(map(has_case, ("de", "ru", "el", "hy", "sr-Latn", "xx")))


def test_a_script_in_a_name_counts() -> None:
    assert scripts_of("sr") == frozenset({"CYRILLIC", "LATIN"})
    assert scripts_of("sr@latin") == scripts_of("sr-Latn-RS") == frozenset({"LATIN"})
    assert scripts_of("zh-Hant-TW") == scripts_of("zh")
    assert not has_case("kk-Arab")


def test_spacy_has_rules_of_any_form() -> None:
    for name in ("pt-BR", "sr-Latn", "de-AT"):
        words = SpacyWords(name, name, lowercase=False)
        assert words.split("Hallo Welt.") == ["Hallo", "Welt", "."]


@pytest.mark.parametrize(
    "text", ["", " \t\u3000", "\u200b", "\ufeff\u2060 \u00ad", "\u3164", "\u2800", "\x01"]
)
def test_invisible_characters_are_blank_and_no_letters(text: str) -> None:
    assert is_blank(text)
    assert not has_letters(text)


@pytest.mark.parametrize("text", ["12345", "---", "٣ ½ ² Ⅷ ①", "2024-01-05", "♪ 😀 …", "12\u200b"])
def test_numerals_and_signs_are_seen_and_no_letters(text: str) -> None:
    assert not is_blank(text)
    assert not has_letters(text)


@pytest.mark.parametrize("text", ["a", "12 km", "一", "\u200bk", "अ", "ª"])
def test_letters_of_any_script_count(text: str) -> None:
    assert has_letters(text)


def test_which_languages_are_close() -> None:
    close = [("pt-BR", "pt_PT"), ("nb", "nn"), ("de", "de"), ("hr", "sr-Latn"), ("zho", "zh-TW")]
    assert all(are_close(*pair) and are_close(*pair[::-1]) for pair in close)
    assert not any(are_close(*pair) for pair in [("de", "en"), ("de", "nl"), ("nb", "sk")])
    assert are_close("sr", "sr-Latn")
    assert not are_close("sr-Cyrl", "sr-Latn")
    assert not are_close("hr", "sr-Cyrl")


@pytest.mark.parametrize(
    ("line", "language", "script"),
    [
        ("собака бежит", "de", "CYRILLIC"),
        ("der Hund собака", "de", None),
        ("Haus собака", "de", "CYRILLIC"),
        ("собака", "ru", None),
        ("да", "de", None),  # too short to tell
        ("12 345 !!! …", "ru", None),
        ("iPhone", "ru", "LATIN"),
        ("犬が走る公園", "zh", None),  # most of it is Chinese as well
        ("いぬがはしる", "zh", "HIRAGANA"),
        ("что угодно", "tlh", None),
    ],
)
def test_a_line_is_foreign_by_most_of_its_letters(
    line: str, language: str, script: str | None
) -> None:
    assert ScriptCheck(language).foreign_script(line) == script

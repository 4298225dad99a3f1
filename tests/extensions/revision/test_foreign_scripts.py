import pytest

from transformer_cli.extensions.revision.doubts import ScriptCheck
from transformer_cli.extensions.revision.foreign_scripts import (
    are_close,
    script_of,
    scripts_of,
)


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


def test_characters_without_a_script_have_none() -> None:
    assert [script_of(character) for character in " .5€µªー!\u0301"] == [
        *[None] * 6,
        "KATAKANA",
        None,
        None,
    ]


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


def test_languages_of_other_scripts_share_none() -> None:
    for one, other in (("de", "ru"), ("zh", "ko-KP"), ("hi", "bn"), ("ar", "he")):
        first, second = scripts_of(one), scripts_of(other)
        assert first
        assert second
        assert (first & second) == ({"CJK"} if one == "zh" else set())


def test_an_unknown_language_has_no_scripts() -> None:
    assert scripts_of("tlh") is None
    assert scripts_of("pt_BR") == scripts_of("pt") == frozenset({"LATIN"})


def test_a_script_in_a_name_counts() -> None:
    assert scripts_of("sr") == frozenset({"CYRILLIC", "LATIN"})
    assert scripts_of("sr@latin") == scripts_of("sr-Latn-RS") == frozenset({"LATIN"})
    assert scripts_of("zh-Hant-TW") == scripts_of("zh")

import pytest

from transformer_cli.config.languages import has_case, has_spaces
from transformer_cli.text.lines import has_letters, is_blank
from transformer_cli.text.words import SpacyWords


def test_which_languages_have_spaces_and_case() -> None:
    assert {
        each for each in ("zh-TW", "zh_Hans", "cmn", "jpn", "th", "my", "bo") if has_spaces(each)
    } == set()
    assert all(map(has_spaces, ("ko", "kor", "de", "ar", "hi", "vi", "xx")))
    assert not any(map(has_case, ("zh", "ja-JP", "ko", "ar", "arb", "he", "hi", "th", "ka")))
    assert all(map(has_case, ("de", "ru", "el", "hy", "sr-Latn", "xx")))


def test_a_script_in_a_name_counts() -> None:
    assert has_case("sr-Latn")
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

import pytest
from hypothesis import given, settings, strategies as st

from transformer_cli.audit.split_check import SideCheck


def check_line(line: str) -> SideCheck:
    checks = SideCheck(lambda character: character == "Ω", str.split)
    checks.check_line(0, line)
    return checks


@pytest.mark.parametrize(
    "line",
    [
        "Ein Hund & eine Katze; 5 € für «AMANHÃ» und “SERÁ AMANHÔ.",
        "می‌خواهم",  # spelled with a joiner
        "👩‍🚒 löscht",
        "S&P; x&y",
        "â und Â und Ã",
        "",
    ],
)
def test_what_people_write_is_not_odd(line: str) -> None:
    assert check_line(line).odd.count == 0


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("kaputt \ufffd", "\ufffd"),
        ("a\u200bb", "U+200B"),
        ("weich\u00adgetrennt", "U+00AD"),
        ("\ufeffAnfang", "U+FEFF"),
        ("a\tb\x00", "U+0000 U+0009"),
        ("a\rb", "U+000D"),
        ("zwei\u2028Zeilen", "U+2028"),
        ("privat \ue001", "U+E001"),
        ("Tom &amp; Jerry", "&amp;"),
        ("Tom &#39;s", "&#39;"),
        ("Tom &#x27;s", "&#x27;"),
        ("FuÃŸ", "ÃŸ"),
        ("schÃ¶n", "Ã¶"),
        ("itâ€™s", "â€"),
    ],
)
def test_what_programs_leave_behind_is(line: str, detail: str) -> None:
    assert check_line(line).odd.first == [(0, detail)]


def test_characters_that_nothing_is_known_of_are_counted_by_lines() -> None:
    checks = SideCheck(lambda character: character in "ΩΨ", str.split)
    for index, line in enumerate(["a", "Ω Ω", "b", "ΨΩ"]):
        checks.check_line(index, line)
    assert checks.lacking.count == 2
    assert checks.lacking.first == [(1, "Ω"), (3, "Ψ Ω")]
    assert checks.characters == set("abΩΨ ")


@settings(max_examples=30)
@given(st.lists(st.text()))
def test_any_text_can_be_looked_at_and_named_on_one_line(lines: list[str]) -> None:
    checks = SideCheck(lambda character: True, str.split)
    for index, line in enumerate(lines):
        checks.check_line(index, line)
    for hits in (checks.odd, checks.lacking):
        assert hits.count <= len(lines)
        assert all(detail.isprintable() for _, detail in hits.first)

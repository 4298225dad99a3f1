import pytest
from hypothesis import given, settings, strategies as st

from transformer_cli.audit.line_checks import LineChecks
from transformer_cli.text.scripts import scripts_of


def check_line(line: str, language: str = "de") -> LineChecks:
    checks = LineChecks(scripts_of(language), lambda character: character == "Ω")
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


@pytest.mark.parametrize(
    ("line", "language", "found"),
    [
        ("собака бежит", "de", 1),
        ("der Hund собака", "de", 0),
        ("Haus собака", "de", 1),
        ("собака", "ru", 0),
        ("да", "de", 0),  # too short to tell
        ("12 345 !!! …", "ru", 0),
        ("iPhone", "ru", 1),
        ("犬が走る公園", "zh", 0),  # most of it is Chinese as well
        ("いぬがはしる", "zh", 1),
        ("что угодно", "tlh", 0),
    ],
)
def test_a_line_is_foreign_by_most_of_its_letters(line: str, language: str, found: int) -> None:
    assert check_line(line, language).foreign.count == found


def test_characters_that_nothing_is_known_of_are_counted_by_lines() -> None:
    checks = LineChecks(None, lambda character: character in "ΩΨ")
    for index, line in enumerate(["a", "Ω Ω", "b", "ΨΩ"]):
        checks.check_line(index, line)
    assert checks.lacking.count == 2
    assert checks.lacking.first == [(1, "Ω"), (3, "Ψ Ω")]
    assert checks.characters == set("abΩΨ ")


@settings(max_examples=30)
@given(st.lists(st.text()))
def test_any_text_can_be_looked_at_and_named_on_one_line(lines: list[str]) -> None:
    checks = LineChecks(scripts_of("de"), lambda character: True)
    for index, line in enumerate(lines):
        checks.check_line(index, line)
    for hits in (checks.odd, checks.foreign, checks.lacking):
        assert hits.count <= len(lines)
        assert all(detail.isprintable() for _, detail in hits.first)

"""A translation memory: exact matches are used, and fuzzy ones shown, with a fake translator."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from extensions.documents.fakes import Line, filled, shout, translating
from transformer_cli.base.errors import UsageError
from transformer_cli.extensions.documents.document import Filling, Match
from transformer_cli.extensions.documents.memory import Memory
from transformer_cli.extensions.documents.sentences import LineTranslator

HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
PAIRS = [
    ("Open the file", "Die Datei öffnen"),
    ("Open the file", "Datei öffnen"),
    ("Open the file", "Datei öffnen"),
    ("Copy %s to %s", "%s kopieren"),
    ("", "leer"),
    ("Only the source", " "),
]


def po(*sources: str) -> str:
    return HEAD + "\n".join(f'msgid "{source}"\nmsgstr ""\n' for source in sources)


def recalling(by: Callable[[str], Line] = shout, **options: object) -> LineTranslator:
    return replace(translating(by), find_matches=finder(Memory(PAIRS)), **options)  # type: ignore[arg-type]


def finder(memory: Memory) -> Callable[[Sequence[str]], list[Match | None]]:
    return lambda texts: [memory.find(text) for text in texts]


def test_a_memory_finds_the_same_or_the_most_similar_source() -> None:
    memory = Memory(PAIRS)
    assert memory.find("Open  the file\n") == Match("Open the file", "Datei öffnen", 100)
    match = memory.find("Open the files")
    assert match is not None
    assert (match.src, match.percent) == ("Open the file", 96)
    assert memory.find("Close all windows") is None
    assert memory.find("") is None
    assert memory.find("Only the source") is None


def test_an_exact_match_is_used_and_a_fuzzy_one_shown(tmp_path: Path) -> None:
    text = po("Open the file", "Open the files", "Quit")
    written, result = filled(tmp_path / "x.po", text, recalling())
    assert written.decode() == HEAD + (
        'msgid "Open the file"\nmsgstr "Datei öffnen"\n\n'
        "# 96 %: Open the file = Datei öffnen\n"
        '#, fuzzy\nmsgid "Open the files"\nmsgstr "OPEN THE FILES"\n\n'
        '#, fuzzy\nmsgid "Quit"\nmsgstr "QUIT"\n'
    )
    assert result.summary() == ["filled 3 of 3 segments (1 from the memory)"]
    origins = [filling and filling.origin for filling in result.fillings]
    assert origins == ["memory", "model", "model"]


def test_an_exact_match_ends_fuzziness_only_if_msgfmt_accepts_it(tmp_path: Path) -> None:
    find = finder(Memory([("Copy %s to %d", "%d ab %s"), ("Quit", "Beenden")]))
    how = replace(translating(), find_matches=find)
    entries = '#, fuzzy\nmsgid "Quit"\nmsgstr ""\n\n#, c-format\nmsgid "Copy %s to %d"\nmsgstr ""\n'
    written, result = filled(tmp_path / "x.po", HEAD + entries, how)
    assert sum(one.origin == "memory" for _, one in result.pairs()) == 2
    assert written.decode() == HEAD + (
        'msgid "Quit"\nmsgstr "Beenden"\n\n'
        '#, fuzzy, c-format\nmsgid "Copy %s to %d"\nmsgstr "%d ab %s"\n'
    )


def test_an_exact_match_needs_no_review_in_xliff(tmp_path: Path) -> None:
    units = "".join(
        f'<trans-unit id="{text}"><source>{text}</source></trans-unit>'
        for text in ("Open the file", "Quit")
    )
    text = (
        '<xliff version="1.2"><file original="x" source-language="en" target-language="de" '
        f'datatype="plaintext"><body>{units}</body></file></xliff>'
    )
    written = filled(tmp_path / "x.xlf", text, recalling())[0].decode()
    exact, machine = re.findall(r"<target ([^>]*)>", written)
    assert exact == 'state="translated" state-qualifier="exact-match"'
    assert machine == 'state="needs-review-translation" state-qualifier="mt-suggestion"'


def test_placeholders_are_not_counted_as_tags(tmp_path: Path) -> None:
    entries = 'msgid "x %d y"\nmsgstr ""\n\nmsgid "<b>2</b> %d x"\nmsgstr ""\n'
    _, result = filled(tmp_path / "x.po", HEAD + entries)
    assert result.summary() == ["filled 2 of 2 segments"]
    text = "1\n00:00:01,000 --> 00:00:02,000\nx <b>2</b> y %d\n"
    _, result = filled(tmp_path / "x.srt", text)
    assert result.summary() == [
        "filled 1 of 1 segments (1 with tags or accelerators placed by alignments)"
    ]


def test_low_confidence_needs_review() -> None:
    assert Filling("x", confidence=0.15).has_to_be_read
    assert not Filling("x", confidence=0.6).has_to_be_read
    assert not Filling("x", origin="memory").has_to_be_read


def test_a_comment_is_not_in_an_obsolete_entry_before(tmp_path: Path) -> None:
    old = '#~ msgid "old"\n#~ msgstr "alt"\n'
    text = po("Quit") + old + 'msgid "Open the files"\nmsgstr ""\n'
    written = filled(tmp_path / "x.po", text, recalling())[0].decode()
    assert f"{old}# 96 %: Open the file = Datei öffnen\n" in written


def test_a_match_without_the_placeholders_is_not_taken(tmp_path: Path) -> None:
    _, result = filled(tmp_path / "x.po", po("Copy %s to %s"), recalling())
    (filling,) = result.fillings
    assert filling is not None
    assert filling.origin == "model"
    assert filling.comment == "100 %: Copy %s to %s = %s kopieren"


def test_a_comment_is_written_once_and_in_any_encoding(tmp_path: Path) -> None:
    find = finder(Memory([("Open all files", "„Alle“ Dateien")]))
    text = HEAD.replace("UTF-8", "ISO-8859-1") + 'msgid "Open all file"\nmsgstr ""\n'
    once, _ = filled(tmp_path / "x.po", text, replace(translating(), find_matches=find))
    assert b"# 96 %: Open all files = ?Alle? Dateien\n#, fuzzy\n" in once
    text = text.replace("ISO-8859-1", "UTF-8")
    once, _ = filled(tmp_path / "x.po", text, replace(translating(), find_matches=find))
    again, _ = filled(tmp_path / "x.po", once, replace(translating(), find_matches=find))
    assert again == once


def test_a_match_is_one_line_of_valid_xml_text(tmp_path: Path) -> None:
    memory = Memory([("Usage: -a foo", "Aufruf: -a foo"), ("Qu\0it", "Be\x0bende\uffff ")])
    assert memory.find("Qu\0it") == Match("Qu\ufffdit", "Be ende\ufffd", 100)
    how = replace(translating(), find_matches=finder(memory))
    written, _ = filled(tmp_path / "x.po", po(r"Usage:\n  -a foo\n"), how)
    assert r'  -A FOO\n"' in written.decode()


def test_doubtful_translations_are_reported_or_left(tmp_path: Path) -> None:
    def doubting(text: str) -> Line:
        return Line(text.upper(), log_probability=-2.0, tokens=4, remark="repeats itself")

    text = po("Quit")
    _, result = filled(tmp_path / "x.po", text, recalling(doubting))
    assert result.summary()[1:] == [f"doubtful 1; first: {tmp_path}/x.po:4: repeats itself"]
    (filling,) = result.fillings
    assert filling is not None
    assert filling.confidence == pytest.approx(0.6065, abs=1e-4)
    written, result = filled(tmp_path / "x.po", text, recalling(doubting, fills_doubtful=False))
    assert written.decode() == text
    (line,) = result.summary()[1:]
    assert line == f"not filled: 1; first: {tmp_path}/x.po:4: doubtful, repeats itself"


def test_a_memory_is_read_by_its_ending(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("Open\tÖffnen\n")
    (tmp_path / "own.po").write_text(HEAD + 'msgid "Quit"\nmsgstr "Beenden"\n')
    memory = Memory.read((tmp_path / "own.tsv", tmp_path / "own.po"), "en", "de")
    assert memory.find("Open") == Match("Open", "Öffnen", 100)
    assert memory.find("Quit") == Match("Quit", "Beenden", 100)
    with pytest.raises(UsageError, match=r"own\.txt: expected .tmx, .po or .tsv"):
        Memory.read((tmp_path / "own.txt",), "en", "de")

"""A broken document gives a one-line error or a correct result; nothing is lost."""

import random
import re
from collections import Counter
from importlib import import_module
from itertools import permutations
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from extensions.documents.fakes import Line, read, reverse, translating
from extensions.documents.test_po import AFTER, DONE, HEADER
from extensions.documents.test_xliff import OKAPI
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.registry import entries
from transformer_cli.extensions.documents.filling import fill

PO = f"""{HEADER}{DONE}
#, fuzzy, c-format
#| msgid "before"
msgid "one %d <b>file</b>"
msgid_plural "%d files of\\n"
"%s"
msgstr[0] ""
msgstr[1] ""

msgid "Click here."
msgstr ""

{AFTER}"""
EXAMPLES = {".po": [PO]}


def _find_examples() -> dict[str, list[str]]:
    """Return the EXAMPLES of each format's tests, by filename extension."""
    names = (path.stem for path in Path(__file__).parent.glob("test_*.py"))
    found: dict[str, list[str]] = dict(EXAMPLES)
    for name in names:
        found |= getattr(import_module(f"{__package__}.{name}"), "EXAMPLES", {})
    return found


DOCUMENTS = _find_examples()
SIGNS = b"\"'<>&;/#\\|*_`[]()-~ \n\r\t\0\xff\xc3\xe2=:.%{}1a"


def break_document(data: bytes, draw: random.Random) -> bytes:
    """Return a document with a few bytes changed, moved, doubled or cut off."""
    broken = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        start = draw.randrange(len(broken) + 1)
        end = min(len(broken), start + draw.choice([1, 1, 3, 20]))
        match draw.randrange(5):
            case 0:
                del broken[start:end]
            case 1:
                broken[start:start] = broken[start:end]
            case 2:
                broken[start:end] = bytes(draw.choices(SIGNS, k=draw.choice([1, 2])))
            case 3:
                place = draw.randrange(len(broken) + 1)
                broken[place:place] = broken[start:end]
            case 4 if draw.random() < 0.2:
                del broken[start:]
    return bytes(broken)


def check_broken(path: Path, data: bytes) -> bool:
    """Check the result for a document; return whether it could be read."""
    try:
        document = read(path, data)
    except TransformerCliError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message
    if message:
        assert message.startswith(str(path))
        return False
    assert document.write([None] * len(document.segments)) == data
    result = fill(document, translating(reverse))
    written = document.write(result.fillings)
    for segment, filling in zip(document.segments, result.fillings, strict=True):
        if filling is not None:
            assert Counter(segment.split(filling.text)[1::2]) == Counter(segment.tag_texts)
            assert filling.text.strip()
    again = read(path, written)
    if path.suffix == ".md":
        parser = MarkdownIt("commonmark").enable("table")
        before, after = (parser.parse(one.decode()) for one in (data, written))
        types = [[token.type for token in one] for one in (before, after)]
        # A bar of a broken table may begin another table elsewhere.
        has_bars = any("|" in token.content for token in before)
        assert has_bars or types[0] == types[1]
    if path.suffix == ".html":
        before_and_after = (
            Counter(re.findall(rb"<[^<>\s][^<>]*>", one)) for one in (data, written)
        )
        for one, other in permutations(before_and_after):
            assert {tag for tag in one - other if b"lang" not in tag} == set()
    if path.suffix in (".po", ".srt", ".vtt", ".tmx", ".xlf"):
        left = sum(filling is None for filling in result.fillings)
        lacking = {".srt": len(document.segments), ".vtt": len(document.segments)}
        fuzzy = len(document.segments) if path.suffix == ".po" else left
        assert len(again.segments) == lacking.get(path.suffix, fuzzy)
    return True


def test_each_format_has_an_example() -> None:
    for name, entry in entries("document").items():
        assert not entry.facts["endings"] or set(entry.facts["endings"]) & DOCUMENTS.keys(), name


@pytest.mark.parametrize("ending", DOCUMENTS)
@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.long)])
def test_broken_documents(tmp_path: Path, ending: str, count: int) -> None:
    name = f"x{ending}"
    draw = random.Random(f"{name} {count}")
    could_be_read = 0
    for _ in range(count):
        data = break_document(draw.choice(DOCUMENTS[ending]).encode(), draw)
        (tmp_path / f"last-{name}").write_bytes(data)
        could_be_read += check_broken(tmp_path / name, data)
    assert could_be_read > count // 8


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.po", f"{HEADER}{' ' * 300_000}x"),
        ("x.po", f'{HEADER}msgid "a{" " * 300_000}b"\nmsgstr ""\n'),
        ("x.po", f'{HEADER}msgid "{"<b>dog</b> " * 4000}"\nmsgstr ""\n'),
        ("x.html", f"<p>a{' ' * 300_000}b</p>"),
        ("x.html", "<code>" * 100_000),
        ("x.srt", f"1\n00:00:01,000 --> 00:00:02,000\na{' ' * 300_000}b"),
        ("x.xlf", OKAPI.replace("<source>", f"<source>{' ' * 300_000}a")),
        ("x.txt", f"a{' ' * 300_000}b"),
    ],
)
def test_time_is_not_by_the_square(tmp_path: Path, name: str, text: str) -> None:
    """Fail if filling takes minutes."""
    try:
        document = read(tmp_path / name, text)
    except TransformerCliError:
        return
    document.write(fill(document, translating(lambda _: Line("x"))).fillings)

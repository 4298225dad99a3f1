"""Read the lines of text files, and check whether a line needs translation."""

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import find_compressed_ending, open_text
from transformer_cli.config.choices import DecodingErrors

MAX_LINE_BYTES = 1 << 22
"""Maximum bytes of a line; a file without line ends is not text, and may not fit into memory."""
_TAR_MAGICS = b"ustar\x0000", b"ustar  \x00"  # of POSIX and of GNU tar
# Unicode calls Hangul fillers letters, but they are invisible.
_LETTER_OR_NUMERAL = re.compile("[^\\W\\d_\u115f\u1160\u3164\uffa0]")
_VISIBLE = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def is_blank(line: str) -> bool:
    """Return whether a line is empty or has only white space and invisible characters."""
    return _VISIBLE.search(line) is None


def has_letters(text: str) -> bool:
    """Return whether ``text`` has a visible letter; digits and other numerals are not letters."""
    place = 0
    while match := _LETTER_OR_NUMERAL.search(text, place):
        if match[0].isalpha():
            return True
        place = match.end()
    return False


def has_words(line: str) -> bool:
    """Return whether a line has letters outside of parts that are never translated, such as URLs.

    Extensions find these parts with entries of the interface ``unchanged parts``: ``load`` names a
    function like this one, which is only called for lines that match the pattern ``signs``.
    """
    return has_letters(line) and all(
        entry.load()(line) for signs, entry in _unchanged_parts() if signs.search(line)
    )


@cache
def _unchanged_parts() -> list[tuple[re.Pattern[str], registry.Entry]]:
    entries = registry.entries("unchanged parts").values()
    return [(re.compile(entry.facts["signs"]), entry) for entry in entries]


# --- reading -------------------------------------------------------------------------------------


def stream_lines(path: Path, once: bool = False) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed; for errors, see ``decode_lines``."""
    with open_text(path, once) as file:
        yield from decode_lines(bounded_lines(file, str(path)), str(path))


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a binary file; raise CorpusError if one exceeds ``MAX_LINE_BYTES``."""
    lines = iter(partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name}:{number}: the line is longer than {MAX_LINE_BYTES >> 20} MiB; put one "
                "sentence or record on each line"
            )
        yield line


def decode_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Iterator[str]:
    r"""Decode the lines of the binary file ``name`` one by one.

    Only ``\n`` ends a line, so that all programs split both sides of a corpus in the same way.
    Other characters at which Python's ``splitlines`` splits stay in the line. One ``\r`` before
    the line end is dropped, and so is a byte order mark at the start of the file. The last line
    may lack a line end. If ``errors`` is 'replace', U+FFFD replaces bytes that are not UTF-8.

    Raises:
        CorpusError: the file is not text, or a line is not UTF-8 and ``errors`` is 'strict'.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
            if not raw:
                return
        yield decode_line(raw, name, number, errors)


def without_byte_order_mark(first_line: bytes, name: str) -> bytes:
    """Return a file's first line without a byte order mark; raise CorpusError if it is not text."""
    first_line = first_line.removeprefix(codecs.BOM_UTF8)
    if ending := find_compressed_ending(first_line):
        raise CorpusError(
            f"{name}: is compressed; give it a name that ends with {ending}, or decompress it first"
        )
    if first_line[257:265] in _TAR_MAGICS:  # otherwise its headers would become lines
        raise CorpusError(f"{name}: is a tar archive; unpack it, and name the files in it")
    if found := _find_utf16(first_line):
        raise CorpusError(
            f"{name}: is UTF-16, not UTF-8; convert it with iconv -f {found} -t UTF-8"
        )
    return first_line


def _find_utf16(first_line: bytes) -> str | None:
    """Return the name of the UTF-16 encoding that a line seems to have, or None."""
    if first_line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    # Without a byte order mark, every other byte of most text is 0.
    head = first_line[:64]
    for name, zeros in (("UTF-16BE", head[::2].count(0)), ("UTF-16LE", head[1::2].count(0))):
        if len(head) > 4 and zeros * 5 >= len(head) * 2:
            return name
    return None


def decode_line(raw: bytes, name: str, number: int, errors: DecodingErrors = "strict") -> str:
    """Decode a line and drop its line end; raise CorpusError as ``decode_lines`` does."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        # Count characters, as editors do; all text before the bad byte is valid.
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise CorpusError(
            f"{name}:{number}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {column} of "
            "the line); convert the file with iconv -f NAME -t UTF-8, where NAME is its encoding"
        ) from error

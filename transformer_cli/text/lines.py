"""What a line consists of: letters, marks, and parts that stay as they are in its translation.

Such verbatim parts are '%s', '{name}', '<b>' or a URL. Each pattern takes time linear in the line's
length, whatever the line: repetitions are possessive, or end at a character that only starts such a
part.
"""

import codecs
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, get_args

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import find_compressed_ending, open_text
from transformer_cli.config.choices import DecodingErrors

MAX_LINE_BYTES = 1 << 22
"""Longest line that is read: what has no line ends is no text, and might not fit into memory."""
_TAR_MAGICS = b"ustar\x0000", b"ustar  \x00"  # POSIX' and GNU's
SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Thai, Tibetan, Burmese, Khmer, kana and ideographs, as a range of characters: without spaces
between words, each character counts as one, in reports with its marks."""
# Hangul fillers are letters to Unicode, but nobody sees them.
_LETTER_OR_NUMERAL = re.compile("[^\\W\\d_\u115f\u1160\u3164\uffa0]")
_VISIBLE = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
# Where Unicode has marks of languages that are written today.
_MARKED = range(0x300, 0x1D00), range(0x302A, 0x309B), range(0xA66F, 0xAC00), range(0xFE20, 0xFE30)
_JOINERS = "\u200c\u200d"
MARKS = _JOINERS + "".join(
    character
    for character in map(chr, chain(*_MARKED))
    if unicodedata.category(character)[0] == "M"
)
"""Accents, signs of vowels, joiners of words: Python's ``\\w`` and ``isalnum`` leave them out."""


def is_blank(line: str) -> bool:
    """Return whether a line has nothing to see: only white space and invisible characters."""
    return _VISIBLE.search(line) is None


def has_letters(text: str) -> bool:
    """Return whether a text has a letter that can be seen; digits and other numerals are none."""
    place = 0
    while match := _LETTER_OR_NUMERAL.search(text, place):
        if match[0].isalpha():
            return True
        place = match.end()
    return False


def is_of_word(character: str) -> bool:
    """Return whether a character is a letter, a digit or a mark; false of none."""
    return character.isalnum() or (character != "" and character in MARKS)


# --- verbatim parts -------------------------------------------------------------------------------

Group = Literal["printf", "braces", "tags", "urls"]
GROUPS: tuple[Group, ...] = get_args(Group)

# C's printf and its relatives: '%s', '%1$s', '%-5.2f', '%(name)s', and Qt's '%1'. No space as flag
# and no digit before, as in '100 % der' and '100%ige'.
_PRINTF = (
    r"%%|(?<!\d)%(?:"
    r"(?:\(\w++\)|\d++\$)?[-+#0']*+(?:\*|\d++)?+(?:\.(?:\*|\d++)?+)?(?:hh|ll|[hlqjztL])?"
    r"[diouxXeEfFgGaAcCsSpnrm@]"
    r"|L?[1-9](?!\d))"
)
# '{}', '{0}', '{name!r:>5}', '{user.name}', '${VAR}', '%{name}', '{{ name }}', '{0,number}'. Not
# ICU's '{n, plural, one {# file} other {# files}}', whose text is to be translated.
_BRACES = (
    r"\{\{[^{}]*+\}\}"
    r"|[$#%]?\{(?:\w*+(?:[.\[][\w.\[\]]*+)?(?:![rsa])?(?::[^{}\s]*+)?|\d++\s*+,[^{}]*+)\}"
)
_NAME = r"[A-Za-z0-9][\w:.-]*+"
_ATTRIBUTE = r"""[\w:.-]++(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++))?"""
_TAGS = (
    rf"</{_NAME}\s*+>|<(?P<opened>{_NAME})(?:\s++{_ATTRIBUTE})*+\s*+/?>"
    r"|&(?:amp|lt|gt|quot|apos|nbsp);"
)
_URLS = (
    r"(?<!\w)(?:(?:https?|ftp|file)://|www\.)"
    r"[^\s<>\"“”„«»‹›`]*[^\s<>\"“”„«»‹›`.,;:!?')\]}…]"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
)
_PATTERNS: dict[Group, str] = {"urls": _URLS, "tags": _TAGS, "printf": _PRINTF, "braces": _BRACES}
_SIGNS = ("%", "<", "{", "&", "@", "://", "www.")  # each part of a group has one
_CLOSING = re.compile(rf"</({_NAME})")
# Elements that need no closing tag in their line to be told from '<file>' in 'Usage: cat <file>'.
_INLINE_ELEMENT = re.compile(
    r"a|b|big|br|center|code|em|font|h[1-6]|hr|i|img|kbd|li|ol|p|pre|q|s|small|span|strong"
    r"|su[bp]|tt|ul?",
    re.IGNORECASE,
)


class VerbatimPart(NamedTuple):
    """The text of a part, and its place in a line."""

    text: str
    start: int
    end: int


def find_verbatim(line: str, groups: Collection[Group] = GROUPS) -> list[VerbatimPart]:
    """Return the parts of a line that belong to some groups, from left to right."""
    parts: list[VerbatimPart] = []
    if not (groups and any(sign in line for sign in _SIGNS)):
        return parts
    pattern = _compile(tuple(group for group in _PATTERNS if group in groups))
    closed: set[str] | None = None
    place = 0
    while match := pattern.search(line, place):
        opened = match["opened"] if "opened" in pattern.groupindex else None
        if opened is not None and "=" not in match[0] and not match[0].endswith("/>"):
            if closed is None:
                closed = {name.lower() for name in _CLOSING.findall(line)}
            if not _INLINE_ELEMENT.fullmatch(opened) and opened.lower() not in closed:
                # '<file>' is text; look for parts inside it.
                place = match.start() + 1
                continue
        parts.append(VerbatimPart(match[0], *match.span()))
        place = match.end()
    return parts


def has_words(line: str) -> bool:
    """Return whether a line has letters outside its verbatim parts, of all groups.

    Numbers, dates, punctuation, URLs and tags have nothing to translate.
    """
    if not has_letters(line):
        return False
    end = 0
    for _, start, after in find_verbatim(line):
        if has_letters(line[end:start]):
            return True
        end = after
    return has_letters(line[end:])


@cache
def _compile(groups: tuple[Group, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_PATTERNS.__getitem__, groups)))


# --- reading -------------------------------------------------------------------------------------


def stream_lines(path: Path, once: bool = False) -> Iterator[str]:
    """Yield the lines of a text file, compressed or not; raise what ``decode_lines`` does."""
    with open_text(path, once) as file:
        yield from decode_lines(bounded_lines(file, str(path)), str(path))


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a binary file; raise CorpusError at one longer than ``MAX_LINE_BYTES``."""
    lines = iter(partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB; this is not one "
                "sentence or record on each line"
            )
        yield line


def decode_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Iterator[str]:
    r"""Decode the lines of the binary file ``name`` one by one.

    Only ``\n`` ends a line, so that both sides of a corpus are cut alike by every program: other
    characters that Python's ``splitlines`` breaks at stay in their line. One ``\r`` before the line
    end is dropped, and so is a byte order mark at the start of the file. The last line may lack
    its line end. ``errors`` 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: a line is not UTF-8, and ``errors`` is 'strict'.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
            if not raw:
                return
        yield decode_line(raw, name, number, errors)


def without_byte_order_mark(first_line: bytes, name: str) -> bytes:
    """Return a text file's first line without its mark; CorpusError: it is no UTF-8 text at all."""
    first_line = first_line.removeprefix(codecs.BOM_UTF8)
    if ending := find_compressed_ending(first_line):
        raise CorpusError(
            f"{name}: is compressed; give it a name that ends with {ending}, or decompress it first"
        )
    if first_line[257:265] in _TAR_MAGICS:  # its headers would be lines
        raise CorpusError(f"{name}: is a tar archive; unpack it, and name the files in it")
    if found := _find_utf16(first_line):
        raise CorpusError(
            f"{name}: is UTF-16, not UTF-8; convert it with iconv -f {found} -t UTF-8"
        )
    return first_line


def _find_utf16(first_line: bytes) -> str | None:
    """Return the name of the UTF-16 that a line seems to be in; None: it is in none."""
    if first_line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    # Without a mark, every other byte of most text is 0.
    head = first_line[:64]
    for name, zeros in (("UTF-16BE", head[::2].count(0)), ("UTF-16LE", head[1::2].count(0))):
        if len(head) > 4 and zeros * 5 >= len(head) * 2:
            return name
    return None


def decode_line(raw: bytes, name: str, number: int, errors: DecodingErrors = "strict") -> str:
    """Decode a line and leave out its line end; raise what ``decode_lines`` does."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        # Counted in characters, as editors do: what stands before the bad byte is valid.
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise CorpusError(
            f"{name}:{number}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {column} of "
            "the line); convert the file with iconv -f NAME -t UTF-8, where NAME is its encoding"
        ) from error

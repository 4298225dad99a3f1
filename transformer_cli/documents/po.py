"""gettext's PO files: empty and fuzzy entries are filled.

Polib does not say where an entry's lines are, so they are read here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transformer_cli.data.readers.po import (
    PluralForms,
    language_code,
    read_encoding,
    read_plural_forms,
)
from transformer_cli.data.readers.units import primary_language
from transformer_cli.documents.document import (
    Document,
    Filling,
    Segment,
    Source,
)
from transformer_cli.errors import InputError

_LINE = re.compile(
    r"\s*+(?:(?P<comment>#.*)"
    r"|(?:(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)\s*+)?"
    r'"(?P<text>(?:[^"\\]|\\.)*+)")?\s*+'
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"'} | {sign: f"\\{name}" for name, sign in _ESCAPES.items()}
)
_WIDTH = 77  # of a text's lines, without quotes, as gettext wraps them
# By their order, directives without a number or a name belong to the arguments.
_DIRECTIVE = re.compile(r"%(?:\d+\$|\()?[^\w%]*\w?|[{}]")


@dataclass
class _Entry:
    """An entry; lines are numbered from 0."""

    line: int  # the first with a keyword
    first: int | None = None  # the first of its comments
    texts: dict[str, str] = field(default_factory=dict)  # by keyword
    flags: list[int] = field(default_factory=list)  # lines
    previous: list[int] = field(default_factory=list)
    is_fuzzy: bool = False
    is_format: bool = False
    translation: range = range(0)  # lines
    parts: list[int] = field(default_factory=list)
    """Segments: the only text, or those of one thing and of many."""

    @property
    def sources(self) -> list[str]:
        """The texts of ``parts``."""
        return [self.texts[key] for key in ("msgid", "msgid_plural") if key in self.texts]

    @property
    def is_translated(self) -> bool:
        """True if there is a translation, good or fuzzy."""
        return any(text for key, text in self.texts.items() if key.startswith("msgstr"))


class PoDocument(Document):
    """A PO file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._marks_fuzzy = source.marks_fuzzy
        header = b"".join((b"\n" + source.data).split(b"\nmsgid ", 2)[:2])
        self.encoding = read_encoding(header, self.name)
        text = source.decode(self.encoding)
        self._mark = "\ufeff" * text.startswith("\ufeff")
        self._lines = re.split(r"(?<=\n)", text.removeprefix(self._mark))
        self._plural: PluralForms | None = None
        self._entries: list[_Entry] = []
        for entry in self._read_entries():
            if not entry.texts["msgid"] and "msgctxt" not in entry.texts:
                self._read_header(entry.texts.get("msgstr", ""))
            elif entry.texts["msgid"] and (entry.is_fuzzy or not entry.is_translated):
                self._add(entry)

    # --- reading ----------------------------------------------------------------------------------

    def _read_entries(self) -> Iterator[_Entry]:
        """Yield each entry that is not obsolete, checked to be whole."""
        entry, key = _Entry(0), ""
        for number, line in enumerate(self._lines):
            match = _LINE.fullmatch(line)
            if match is None:
                raise self._error(number, "no line of a PO file")
            comment, keyword, text = match["comment"], match["key"], match["text"]
            if entry.translation and (comment or (keyword and not keyword.startswith("msgstr"))):
                yield self._checked(entry)
                entry, key = _Entry(0), ""
            if comment:
                if entry.texts:
                    raise self._error(number, "a comment in the midst of an entry")
                if comment[1:2] == "~":  # what went before is of an obsolete entry
                    entry = _Entry(0)
                    continue
                _add_comment(entry, number, comment)
            elif keyword:
                if keyword in entry.texts:
                    raise self._error(number, f"a second {keyword} of one entry")
                if not entry.texts:
                    entry.line = number
                key = keyword
                entry.texts[key] = _unescape(text)
            elif text is not None:
                if not key:
                    raise self._error(number, "a text without msgid or msgstr")
                entry.texts[key] += _unescape(text)
            if text is not None and key.startswith("msgstr"):
                start = entry.translation.start if entry.translation else number
                entry.translation = range(start, number + 1)
        if entry.texts:
            yield self._checked(entry)

    def _checked(self, entry: _Entry) -> _Entry:
        has_plural = "msgid_plural" in entry.texts
        forms = [key for key in entry.texts if key.startswith("msgstr")]
        expected = [f"msgstr[{n}]" for n in range(len(forms))] if has_plural else ["msgstr"]
        if "msgid" not in entry.texts or not forms or forms != expected:
            raise self._error(entry.line, "an entry without its msgid or msgstr, or out of order")
        return entry

    def _read_header(self, text: str) -> None:
        header = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in text.split("\n"))
        }
        code, target = language_code(header.get("language", "")), self.languages[1]
        if code not in ("", primary_language(target)):
            raise InputError(
                f"{self.name}: the header says 'Language: {header['language'][:40]}', but the run "
                f"translates into '{target}'"
            )
        self._plural = read_plural_forms(header.get("plural-forms", ""))

    def _add(self, entry: _Entry) -> None:
        texts, place = entry.sources, self._place(entry.line)
        if len(texts) > 1 and self._plural is None:
            self.left.append(f"{place}: no Plural-Forms in the header")
            return
        entry.parts = list(range(len(self.segments), len(self.segments) + len(texts)))
        self.segments += [Segment(text, place) for text in texts]
        self._entries.append(entry)

    def _place(self, line: int) -> str:
        return f"{self.name}:{line + 1}"

    def _error(self, line: int, problem: str) -> InputError:
        return InputError(f"{self._place(line)}: {problem}")

    # --- writing ----------------------------------------------------------------------------------

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the file with the entries that have all their translations."""
        lines = list(self._lines)
        for entry in self._entries:
            parts = [fillings[part] for part in entry.parts]
            filled = [part for part in parts if part is not None]
            if len(filled) == len(parts):
                self._fill(lines, entry, filled)
        text = "".join((self._mark, *lines))
        # Only what comments say of a memory may be in other letters.
        return text.encode(self.encoding, "replace")

    def _fill(self, lines: list[str], entry: _Entry, fillings: Sequence[Filling]) -> None:
        """Put an entry's translations in; lines that go become empty."""
        first, last = entry.translation[0], entry.translation[-1]
        end = lines[last][len(lines[last].rstrip("\r\n")) :]
        new_line = "\r\n" if lines[0].endswith("\r\n") else "\n"
        written = new_line.join(self._written(entry, fillings)) + end
        lines[first : last + 1] = [written, *[""] * (last - first)]
        for line in entry.previous:
            lines[line] = ""
        is_fuzzy = self._marks_fuzzy or any(
            filling.problem or (entry.is_format and _may_not_fit(source, filling.text))
            for source, filling in zip(entry.sources, fillings, strict=True)
        )
        if entry.is_fuzzy and not is_fuzzy:
            for line in entry.flags:
                comment = lines[line].strip()
                flags = [flag for flag in _flags(comment) if flag != "fuzzy"]
                lines[line] = f"{comment[:2]} {', '.join(flags)}{new_line}" if flags else ""
        elif is_fuzzy and not entry.is_fuzzy:
            if entry.flags:
                line = entry.flags[0]
                lines[line] = re.sub(r"(#[,=])", r"\1 fuzzy,", lines[line], count=1)
            else:
                lines[entry.line] = f"#, fuzzy{new_line}{lines[entry.line]}"
        first = entry.line if entry.first is None else entry.first
        comments = [f"# {one.comment}{new_line}" for one in fillings if one.comment]
        comments = [one for one in comments if one not in self._lines[first : entry.line]]
        lines[first] = "".join(comments) + lines[first]

    def _written(self, entry: _Entry, fillings: Sequence[Filling]) -> Iterator[str]:
        texts = [
            _with_line_breaks_of(source, filling.text)
            for source, filling in zip(entry.sources, fillings, strict=True)
        ]
        if len(texts) == 1:
            yield from _wrap("msgstr", texts[0])
            return
        assert self._plural is not None
        one, is_only = self._plural.one, self._plural.one == self._plural.many
        for form in range(self._plural.number):
            yield from _wrap(f"msgstr[{form}]", texts[form != one or is_only])


def _add_comment(entry: _Entry, number: int, comment: str) -> None:
    if entry.first is None:
        entry.first = number
    if comment[1:2] == "|":
        entry.previous.append(number)
    elif comment[1:2] in (",", "="):  # gettext 1.0 has flags in both
        entry.flags.append(number)
        flags = _flags(comment)
        entry.is_fuzzy |= "fuzzy" in flags
        entry.is_format |= any(re.fullmatch(r"(?!no-)[\w-]+-format", flag) for flag in flags)


def _flags(comment: str) -> list[str]:
    return [flag.strip() for flag in comment[2:].split(",") if flag.strip()]


def _unescape(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        hexadecimal, octal, sign = match.groups()
        if sign is None:
            return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        return _ESCAPES.get(sign, sign)

    return _ESCAPE.sub(unescape, text) if "\\" in text else text


def _with_line_breaks_of(source: str, text: str) -> str:
    """Return a translation that begins and ends with a line break if its source does."""
    start = "\n" if source.startswith("\n") else ""
    end = "\n" if source.endswith("\n") and source != "\n" else ""
    return start + text.strip("\n") + end


def _may_not_fit(source: str, text: str) -> bool:
    """Return whether `msgfmt -c` might refuse a translation, whatever the format's language."""
    return _DIRECTIVE.findall(source) != _DIRECTIVE.findall(text)


def _wrap(key: str, text: str) -> Iterator[str]:
    """Yield the lines of a keyword and its text, as gettext breaks them."""
    escaped = text.translate(_ESCAPED)
    if "\n" not in text[:-1] and len(f'{key} "{escaped}"') <= _WIDTH + 2:
        yield f'{key} "{escaped}"'
        return
    yield f'{key} ""'
    line = ""
    for word in re.findall(r"(?:[^\s]+| +$)\s*|\s+", text):
        word = word.translate(_ESCAPED)
        if line and (len(line) + len(word) > _WIDTH or line.endswith("\\n")):
            yield f'"{line}"'
            line = ""
        line += word
    yield f'"{line}"'

"""Read pairs from translation memories: TMX 1.1 to 1.4."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import open_text
from transformer_cli.extensions.corpora.units import (
    MAX_SIDE_CHARACTERS,
    InvalidTextError,
    Unit,
    UnitReader,
    comparable_code,
    find_encoding,
    one_line,
)

_CHUNK_BYTES = 1 << 16
_MAX_TAG_BYTES = 1 << 20
_MAX_TEXT_CHARACTERS = 4 * MAX_SIDE_CHARACTERS
MAX_DEPTH = 100  # the maximum nesting depth of elements
# Expat keeps names. TMX has 18 names of elements and about 30 of attributes.
_MAX_NAMES = 1000
# Units have one or two translations in each language; the product of thousands would be endless.
_MAX_VARIANTS = 100
_LANGUAGES_SHOWN = 20


def make_parser(encoding: str | None, make_error: Callable[[str], Exception]) -> Any:
    """Return an expat parser that refuses entities declared in the file or in other files."""

    def refuse(name: str, *_: object) -> None:
        raise make_error(f"the file uses its own entity '{name[:40]}', which is not supported")

    parser = expat.ParserCreate(encoding)
    parser.specified_attributes = True  # or each element would have a DTD's defaults
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    return parser


@dataclass(frozen=True)
class TmxReader(UnitReader):
    """A reader of TMX files. It pairs each source text of a translation unit with each target."""

    languages: tuple[str, str]
    # The languages found in the latest pass, in order.
    languages_met: dict[str, None] = field(default_factory=dict, compare=False, kw_only=True)

    def units(self, file: Path) -> Iterator[Unit]:
        with open_text(file) as raw:
            yield from _Parser(str(file), self.languages, self.languages_met).units(raw)

    def nothing_found(self) -> str:
        src, tgt = self.languages
        met = ", ".join(f"'{code}'" for code in list(self.languages_met)[:_LANGUAGES_SHOWN])
        return f"no unit is in both '{src}' and '{tgt}'; languages found: {met or 'none'}"


class _Parser:
    """A parser that turns expat's events into pairs without building a tree."""

    def __init__(self, name: str, languages: tuple[str, str], met: dict[str, None]) -> None:
        self._name = name
        self._comparable = comparable_code(languages)
        self._sides = list(map(self._comparable, languages))
        self._languages_met = met
        self._done: list[Unit] = []
        self._names: set[str] = set()
        self._depth = 0
        self._since_tag = 0
        self._line = 0
        self._characters = 0
        self._variants: dict[str, list[str]] = {}  # by language, for the two wanted ones
        self._wrong: str | None = None
        self._language: str | None = None
        self._segment: list[str] | None = None
        self._parser = parser = make_parser(None, self._error)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.XmlDeclHandler = self._check_encoding

    def units(self, file: BinaryIO) -> Iterator[Unit]:
        read = 0
        while chunk := file.read(_CHUNK_BYTES):
            self._feed(chunk)
            yield from self._done
            self._done.clear()
            read += len(chunk)
            if read - self._parser.CurrentByteIndex > _MAX_TAG_BYTES:
                raise self._error(f"a tag or a comment is larger than {_MAX_TAG_BYTES >> 20} MiB")
        self._feed(b"", is_final=True)
        yield from self._done

    def _feed(self, chunk: bytes, is_final: bool = False) -> None:
        try:
            self._parser.Parse(chunk, is_final)
        except expat.ExpatError as error:
            reason = "it ends too early" if is_final else expat.ErrorString(error.code)
            raise self._error(f"invalid XML ({reason})") from error
        except (ValueError, LookupError) as error:  # encodings that Python does not have
            raise self._error(f"unknown encoding ({error}); convert the file to UTF-8") from error

    def _check_encoding(self, _: str, declared: str | None, *__: object) -> None:
        # Expat reads UTF-16 itself, and leaves unknown encodings to Python.
        name = declared or "utf-8"
        if find_encoding(name, utf16=True) is None:
            raise self._error(
                f"declares the encoding '{name[:40]}', which is not supported; convert the file to "
                "UTF-8"
            )

    def _error(self, what: str) -> CorpusError:
        return CorpusError(f"{self._name}:{self._parser.ErrorLineNumber}: {what}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._since_tag = 0
        self._depth += 1
        if self._depth == 1 and tag != "tmx":
            raise self._error(f"not TMX: the outermost element is '{tag[:40]}'")
        if self._depth > MAX_DEPTH:
            raise self._error(f"elements are nested more than {MAX_DEPTH} deep")
        self._names.add(tag)
        self._names.update(attributes)
        if len(self._names) > _MAX_NAMES:
            raise self._error(f"more than {_MAX_NAMES} names of elements and attributes")
        if tag == "tu":
            self._line = self._parser.CurrentLineNumber
            self._characters = 0
            self._variants = {}
            self._wrong = None
        elif tag == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang")
            if self._language is None:
                self._wrong = self._wrong or "a tuv without xml:lang"
        elif tag == "seg":
            self._segment = []

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "seg" and self._segment is not None:
            self._add_segment("".join(self._segment))
            self._segment = None
        elif tag == "tuv":
            self._language = None
        elif tag == "tu":
            self._end_unit()

    def _text(self, data: str) -> None:
        self._since_tag += len(data)
        if self._since_tag > _MAX_TEXT_CHARACTERS:
            raise self._error(f"more than {_MAX_TEXT_CHARACTERS:,} characters without a tag")
        # The text of inline tags (bpt, ph and so on) is part of the segment.
        if self._segment is not None and self._characters <= 2 * MAX_SIDE_CHARACTERS:
            self._characters += len(data)
            self._segment.append(data)

    def _add_segment(self, text: str) -> None:
        if self._language is None:
            return
        language = self._comparable(self._language)
        if len(self._languages_met) < _LANGUAGES_SHOWN:
            self._languages_met[language] = None
        if language not in self._sides:
            return
        variants = self._variants.setdefault(language, [])
        if len(variants) == _MAX_VARIANTS:
            self._wrong = f"more than {_MAX_VARIANTS} translations"
            return
        try:
            variants.append(one_line(text, f"'{language}'"))
        except InvalidTextError as error:
            self._wrong = str(error)

    def _end_unit(self) -> None:
        if self._characters > 2 * MAX_SIDE_CHARACTERS:
            self._wrong = f"longer than {2 * MAX_SIDE_CHARACTERS:,} characters"
        if self._wrong is not None:
            self._done.append(CorpusError(f"{self._name}:{self._line}: unit: {self._wrong}"))
        else:
            src, tgt = (self._variants.get(side, []) for side in self._sides)
            self._done += product(src, tgt)

"""Translators without a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformer_cli.extensions.documents.document import Document, Filling
from transformer_cli.extensions.documents.filling import Filled, fill
from transformer_cli.extensions.documents.formats import read_document
from transformer_cli.extensions.documents.sentences import LineTranslator


@dataclass(frozen=True)
class Line:
    text: str
    alignment: tuple[tuple[int, int], ...] = ()
    log_probability: float = 0.0
    tokens: int = 1
    remark: str = ""


def shout(text: str) -> Line:
    """Translate into capitals, word by word."""
    words = text.upper().split()
    return Line(" ".join(words), tuple((place, place) for place in range(len(words))))


def reverse(text: str) -> Line:
    """Translate into the words in reverse order."""
    words = text.split()
    links = tuple((place, len(words) - 1 - place) for place in range(len(words)))
    return Line(" ".join(reversed(words)), links)


def translating(by: Callable[[str], Line] = shout, **of_translating: object) -> LineTranslator:
    def translate(lines: Sequence[str], aligned: bool) -> list[Line]:
        assert all(line.strip() == line and line and "\n" not in line for line in lines)
        found = [by(line) for line in lines]
        return found if aligned else [replace(one, alignment=()) for one in found]

    return LineTranslator(translate, "en", **of_translating)  # type: ignore[arg-type]


def read(path: Path, data: bytes | str, marks_fuzzy: bool = True) -> Document:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_document(path, ("en", "de"), marks_fuzzy)


def filled(
    path: Path, data: bytes | str, how: LineTranslator | None = None, marks_fuzzy: bool = True
) -> tuple[bytes, Filled]:
    """Return a filled document as bytes, and the result of filling it."""
    document = read(path, data, marks_fuzzy)
    result = fill(document, how or translating())
    return result.data, result


__all__ = ["Filling", "Line", "filled", "read", "reverse", "shout", "translating"]

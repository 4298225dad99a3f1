"""JSON objects, one per line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from transformer_cli.compression import open_text
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import bounded_lines
from transformer_cli.data.readers.records import (
    ROW_ADVICE,
    FieldsReader,
    Numbered,
    numbered_lines,
    type_name,
)
from transformer_cli.errors import CorpusError


@dataclass(frozen=True)
class JsonlReader(FieldsReader):
    """Pairs in two fields of the objects."""

    def records(self, file: Path) -> Numbered[dict[str, Any]]:
        """Yield the objects."""
        with open_text(file) as raw:
            yield from read_jsonl(raw, str(file))

    def place(self, file: Path, number: int) -> str:
        """Return the line."""
        return f"{file}:{number}"


def read_jsonl(file: BinaryIO, name: str) -> Numbered[dict[str, Any]]:
    """Yield the objects of a file with their line numbers; blank lines are left out.

    Raises:
        CorpusError: the file is damaged, or has a line without end.
    """
    for number, line in numbered_lines(bounded_lines(file, name), name):
        if isinstance(line, CorpusError):
            yield number, line
        elif line and not line.isspace():
            yield number, _parse(line, f"{name}:{number}", _DECODER)


def read_jsonl_table(
    file: BinaryIO, name: str, errors: DecodingErrors = "strict"
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file that are to be written again, with their line numbers.

    Numbers are ``NumberLiteral``s.

    Args:
        file: the lines in UTF-8, as ``open_text`` opens them.
        name: the file's name, for messages.
        errors: 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: the file is damaged, or a line is blank, no JSON object, or one that cannot be
            written again as it is.
    """
    for number, line in numbered_lines(bounded_lines(file, name), name, errors):
        if isinstance(line, CorpusError):
            raise line
        if not line or line.isspace():
            raise CorpusError(f"{name}:{number}: is blank; remove the line, or make it an object")
        record = _parse(line, f"{name}:{number}", _TABLE_DECODER)
        if isinstance(record, CorpusError):
            raise CorpusError(f"{record}; {ROW_ADVICE}")
        yield number, record


@dataclass(frozen=True)
class NumberLiteral:
    """A number as it is written in a file, as in '1.10': a float or an int may not keep it."""

    text: str


class _UnkeptError(ValueError):
    """JSON that would not be written again as it is."""


def _refuse_constant(text: str) -> NoReturn:
    raise _UnkeptError(f"{text} is not JSON")


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in fields if names.count(name) > 1)
        raise _UnkeptError(f"field '{twice}' is twice in an object")
    return fields


_DECODER = json.JSONDecoder()
_TABLE_DECODER = json.JSONDecoder(
    parse_float=NumberLiteral,
    parse_int=NumberLiteral,
    parse_constant=_refuse_constant,
    object_pairs_hook=_unique_fields,
)


def _parse(line: str, place: str, decoder: json.JSONDecoder) -> dict[str, Any] | CorpusError:
    try:
        value = decoder.decode(line)
    except json.JSONDecodeError as error:
        return CorpusError(f"{place}: invalid JSON at column {error.colno} ({error.msg})")
    except RecursionError:
        return CorpusError(f"{place}: JSON that is nested too deeply")
    except _UnkeptError as error:
        return CorpusError(f"{place}: {error}")
    except ValueError:
        return CorpusError(f"{place}: JSON with a number of too many digits")
    if not isinstance(value, dict):
        return CorpusError(f"{place}: not a JSON object, but {type_name(value)}")
    return value

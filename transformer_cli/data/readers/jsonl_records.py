"""JSON objects, one per line."""

import json
from typing import Any, BinaryIO

from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import bounded_lines
from transformer_cli.data.readers.records import Numbered, numbered_lines
from transformer_cli.errors import CorpusError


def read_jsonl(
    file: BinaryIO, name: str, errors: DecodingErrors = "strict"
) -> Numbered[dict[str, Any]]:
    """Yield the objects of a file with their line numbers; blank lines are left out.

    Args:
        file: the lines in UTF-8, as ``open_text`` opens them.
        name: the file's name, for messages.
        errors: 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: the file is damaged, or has a line without end.
    """
    for number, line in numbered_lines(bounded_lines(file, name), name, errors):
        if isinstance(line, CorpusError):
            yield number, line
        elif line and not line.isspace():
            yield number, _parse(line, name, number)


def _parse(line: str, name: str, number: int) -> dict[str, Any] | CorpusError:
    place = f"{name}:{number}"
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return CorpusError(f"{place}: invalid JSON at column {error.colno} ({error.msg})")
    except RecursionError:
        return CorpusError(f"{place}: JSON that is nested too deeply")
    except ValueError:
        return CorpusError(f"{place}: JSON with a number of too many digits")
    if not isinstance(value, dict):
        return CorpusError(f"{place}: not a JSON object, but {type(value).__name__}")
    return value

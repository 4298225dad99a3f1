"""The option of ``translate`` that says what translations begin with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option

with lazy_imports():
    from transformer_cli.base import files
    from transformer_cli.cli import translation
    from transformer_cli.extensions.prefixes import forced_prefixes
    from transformer_cli.text import lines

_NAME = "--prefix-file"


@dataclass(frozen=True)
class PrefixOptions(ExtraOptions):
    """What translations begin with."""

    heading = "Input and output"
    prefix_file: Annotated[
        Path | None,
        option("FILE", "Forced target prefixes, one a line.", use="reads", needs_torch=True),
    ] = None

    def check(self, given: Any) -> None:
        """Raise a UsageError if lines and prefixes are both standard input."""
        if str(given.input_) == str(self.prefix_file) == "-":
            raise UsageError(f"translate: -i and {_NAME} are both standard input; name a file")

    def check_one(self, given: Any) -> None:
        """Raise a UsageError for one of many files."""
        if self.prefix_file is not None:
            raise UsageError(f"translate: {_NAME} is for one file, but -i names many; leave it out")

    def fingerprint(self) -> dict[str, str]:
        """Return the prefixes' sum, if they can be read again."""
        path = self.prefix_file
        is_kept = path is not None and str(path) != "-" and not files.is_stream(path)
        return {"prefixes": files.sha256(path)} if path and is_kept else {}

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that forces prefixes."""
        return translator if self.prefix_file is None else forced_prefixes.with_prefixes(translator)

    @contextmanager
    def open_rows(self, rows: Iterator[Any], given: Any) -> Iterator[Iterator[Any]]:
        """Open the file; yield the rows, each with its prefix."""
        if self.prefix_file is None:
            yield rows
            return
        name = str(self.prefix_file)
        with translation.open_input(self.prefix_file, _NAME) as raw:
            starts = lines.decode_lines(lines.bounded_lines(raw, name), name, given.errors)
            yield _pair(rows, starts, name)


def _pair(rows: Iterator[Any], starts: Iterator[str], name: str) -> Iterator[Any]:
    """Yield rows whose text knows its prefix; InputError: there are fewer or more prefixes."""
    advice = "give a line, empty or not, for each of the input's"
    number = 0
    for number, row in enumerate(rows, start=1):
        if (start := next(starts, None)) is None:
            raise InputError(f"{name}: ends before line {number:,}, which the input has; {advice}")
        yield row._replace(text=forced_prefixes.PrefixedText(row.text, start, number))
    if next(starts, None) is not None:
        where = f"goes on with line {number + 1:,}, which the input does not have"
        raise InputError(f"{name}: {where}; {advice}")

"""The option ``--prefix-file`` of ``translate``, which forces how translations begin."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option
from transformer_cli.config.choices import DecodingErrors

with lazy_imports():
    from transformer_cli.base import files
    from transformer_cli.cli import translation
    from transformer_cli.extensions.prefixes import forced_prefixes
    from transformer_cli.text import lines

_NAME = "--prefix-file"


@dataclass(frozen=True)
class PrefixOptions(ExtraOptions):
    """The option ``--prefix-file``, a file of prefixes that translations must begin with."""

    heading = "Input and output"
    prefix_file: Annotated[
        Path | None,
        option(
            "FILE",
            "Force the first words of each translation: one line per input line.",
            marks=("reads", "torch", "lines"),
        ),
    ] = None

    def check(self, given: Any) -> None:
        """Raise UsageError if the lines and the prefixes would both come from standard input."""
        if str(given.input_) == str(self.prefix_file) == "-":
            raise UsageError(f"translate: -i and {_NAME} are both standard input; name a file")
        if self.prefix_file is not None and not _is_stream(self.prefix_file):
            with translation.open_input(self.prefix_file, _NAME):
                pass  # the file may be missing

    def check_one(self, given: Any) -> None:
        """Raise UsageError if the option is given, because it does not work with many files."""
        if self.prefix_file is not None:
            raise UsageError(f"translate: {_NAME} is for one file, but -i names many; leave it out")

    def fingerprint(self) -> dict[str, str]:
        """Return the checksum of the prefixes, unless they come from a stream."""
        path = self.prefix_file
        return {"prefixes": files.sha256(path)} if path and not _is_stream(path) else {}

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that forces the prefixes."""
        if self.prefix_file is None:
            return translator
        add_prefixes = staticmethod(partial(_add_prefixes, self.prefix_file, given.errors))
        return translator.extended_by(forced_prefixes.PairingTranslator, add_prefixes=add_prefixes)


def _add_prefixes(
    path: Path, errors: DecodingErrors, chunks: Iterable[Sequence[str]], first_line: int
) -> Iterator[Sequence[str]]:
    """Yield chunks of lines with prefixes; raise InputError if lines and prefixes differ in number.

    The first line in ``chunks`` is number ``first_line`` of the input.
    """
    name, advice = str(path), "give one line per input line, which may be empty"
    with translation.open_input(path, _NAME) as raw:
        decoded = lines.decode_lines(lines.bounded_lines(raw, name), name, errors)
        starts = islice(enumerate(decoded, start=1), first_line - 1, None)
        for chunk in chunks:
            paired = [
                forced_prefixes.PrefixedText(text, start, number)
                for text, (number, start) in zip(chunk, starts, strict=False)
            ]
            if len(paired) < len(chunk):
                missing = first_line + len(paired)
                where = f"ends before line {missing:,} of the input"
                raise InputError(f"{name}: {where}; {advice}")
            first_line += len(chunk)
            yield paired
        if next(starts, None) is not None:
            where = f"has a line {first_line:,}, but the input ends before it"
            raise InputError(f"{name}: {where}; {advice}")


def _is_stream(path: Path) -> bool:
    return str(path) == "-" or files.is_stream(path)

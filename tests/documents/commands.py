"""The commands that README and docs/ show."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROGRAM = "transformer-cli"
_MODULE = "-m transformer_cli"
_FENCE = re.compile(r"^\s*```(\w*)")
_PART = re.compile(r"""(?:'[^']*'|"[^"]*"|[^|'"])+""")
_SYNOPSIS = re.compile(r"(^|[ \[|])(RUN|CONFIG|DIR|FILE|…)($|[ \]|])")


@dataclass(frozen=True)
class Block:
    """Lines of code of a document, without their indentation."""

    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """One call of the program as a document shows it.

    Attributes:
        document: the file's path from the root.
        line: the whole command line.
        arguments: those of the program.
        feeding: the shell command whose output it reads, if any.
        processes: how many torchrun starts.
        refused: whether the document shows an error after it, in the same block or the next one.
    """

    document: str
    line: str
    arguments: tuple[str, ...]
    feeding: str = ""
    processes: int = 1
    refused: bool = False


def documents() -> list[Path]:
    """What a user reads."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced and the indented code of a Markdown text."""
    language: str | None = None
    lines: list[str] = []
    for line in [*text.splitlines(), "end"]:
        fence = _FENCE.match(line)
        if language is not None:
            if fence:
                yield Block(language, tuple(lines))
                language, lines = None, []
            else:
                lines.append(line)
        elif line.startswith("    ") or (lines and not line.strip()):
            lines.append(line[4:])
        else:
            if lines:
                yield Block("", tuple(lines))
                lines = []
            if fence:
                language = fence[1]


def commands(path: Path) -> Iterator[Command]:
    """Yield the program's calls in a document, in order, with or without a prompt sign."""
    page = list(blocks(path.read_text(encoding="utf-8")))
    for block, output in zip_longest(page, page[1:], fillvalue=Block("", ("",))):
        if block.language in ("python", "yaml", "json"):
            continue
        joined = "\n".join(block.lines).replace("\\\n", " ").splitlines()
        # What the last command prints is a block of its own where the commands are to be copied.
        after = [*joined[1:], *(output.lines[:1] if block.language == "sh" else [""])]
        for line, next_line in zip_longest(joined, after, fillvalue=""):
            command = _command(str(path.relative_to(ROOT)), line, next_line)
            if command is not None:
                yield command


def _command(document: str, line: str, after: str) -> Command | None:
    shown = line.strip().removeprefix("$ ")
    for part_number, part in enumerate(parts := _pipeline(shown)):
        words = shlex.split(part, comments=True)
        if not words:
            continue
        processes = 1
        if words[0] == _PROGRAM:
            arguments = words[1:]
        elif words[0] == "torchrun" and _MODULE in part:
            arguments = words[words.index("transformer_cli") + 1 :]
            processes = 2
        else:
            continue
        if _SYNOPSIS.search(" ".join(arguments)):
            return None
        refused = after.startswith(f"{_PROGRAM}: error: ")
        feeding = " | ".join(parts[:part_number])
        return Command(document, shown, tuple(_read(arguments)), feeding, processes, refused)
    return None


def _pipeline(line: str) -> list[str]:
    """The parts of a pipeline; a bar within quotes is none."""
    if _PROGRAM not in line and _MODULE not in line:
        return []
    try:
        shlex.split(line, comments=True)
    except ValueError:  # a text with an apostrophe is no command line
        return []
    return _PART.findall(line)


def _read(arguments: list[str]) -> Iterator[str]:
    """Arguments up to where the shell's own begin."""
    for argument in arguments:
        if argument in (">", ">>", "2>", "&&", ";", "<"):
            return
        yield argument

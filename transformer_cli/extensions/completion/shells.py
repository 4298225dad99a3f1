"""How shells ask for completions, and what installs that; loaded with every command."""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import typer
from typer.core import TyperGroup


@contextmanager
def prepare(group: TyperGroup, arguments: list[str]) -> Iterator[None]:
    """Add the options that install completion, and answer a shell while the block runs."""
    _name_shell(arguments)
    group.params += typer.main.get_install_completion_arguments()
    with _joined_bash_words():
        yield


@contextmanager
def _joined_bash_words() -> Iterator[None]:
    """Complete ``key=value`` and ``RUN:NAME`` in bash, which splits words at ``=`` and ``:``."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    place = os.environ.get("COMP_CWORD", "")
    breaks = "".join({"=", ":"}.intersection(words))
    if not breaks or not place.isdecimal():
        yield
        return
    joined = re.sub(f"\n([{breaks}])(\n|$)", r"\1", "\n".join(words[: int(place) + 1]))
    os.environ |= {"COMP_WORDS": joined, "COMP_CWORD": str(joined.count("\n"))}
    value = re.sub("^--[^=]*=", "", joined.rpartition("\n")[2])  # of an option
    before = re.sub(f"[^{breaks}]*$", "", value)
    terminal = sys.stdout
    with redirect_stdout(io.StringIO()) as out:
        try:
            yield
        finally:
            lines = out.getvalue().splitlines()
            print(*(line.removeprefix(before) for line in lines), sep="\n", file=terminal)


def _name_shell(arguments: list[str]) -> None:
    """Have ``--show-completion`` and ``--install-completion`` read the shell's name after them.

    Typer's options are flags that guess the shell, unless a variable forbids guessing.
    """
    words = "=".join(arguments[:2]).split("=")
    if len(words) > 1 and words[0] in ("--show-completion", "--install-completion"):
        os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"

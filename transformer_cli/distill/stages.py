"""A stage of a distillation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory

Kind = Literal["text", "train", "translate", "select", "score"]


@dataclass(frozen=True)
class Text:
    """A text to translate."""

    name: str
    path: Path


@dataclass(frozen=True)
class Stage:
    """Something to be done once, as long as its inputs stay as they are."""

    name: str
    kind: Kind
    inputs: Callable[[], dict[str, str]]
    """Settings and sums that decide the outputs."""
    outputs: Callable[[], Sequence[Path]]
    """The files whose sums are recorded, once it is done."""
    work: Callable[[], None] | None = None
    """What is done here, before the command if there is one."""
    command: Sequence[str] = ()
    """Arguments of transformer-cli."""
    stdout: Path | None = None
    """The file that the command's output becomes."""
    discard: Callable[[], Path | None] = lambda: None
    """Removes what was made of other inputs, finished or not, or returns where it is set aside."""
    binding: Sequence[str] = ()
    """Options that it goes on with only: one file has one precision."""
    text: Text | None = None
    """What is translated."""
    candidates: int = 1
    """Translations of each of its lines."""
    config: Config | None = None
    """The settings of what is trained."""
    run: RunDirectory | None = None
    """Where to."""

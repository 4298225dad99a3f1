"""Options that several commands share."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import InputError, MissingExtraError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions, argument, flag, option
from transformer_cli.config.choices import (
    MOST_THREADS,
    DeviceName,
    PrecisionName,
    SearchPrecisionName,
)

with lazy_imports():
    from transformer_cli.base import files, locations, text_files
    from transformer_cli.runs import directory


Config = Annotated[Path, argument("CONFIG", "YAML file of the experiment.")]
Run = Annotated[Path, argument("RUN", "Run directory, written by train.")]
RunDir = Annotated[Path | None, option("DIR", "Run directory.  [default: runs/<config name>]")]
Set = Annotated[
    list[str] | None,
    option("KEY=VALUE", "Change a setting, e.g. training.epochs=3; repeatable.", "--set"),
]
Overwrite = Annotated[
    bool, flag("Start over; the earlier run is kept under a new name.", "--overwrite")
]
Checkpoint = Annotated[str, option("best|last|average|PATH", "Checkpoint to load.")]
BeamSize = Annotated[
    int | None, option("N", "Beam size; 1 is greedy search.  [default: the run's]", min=1)
]
Split = Annotated[
    str | None,
    option(
        "SPLIT", "Split of the run's corpus, e.g. val.  [default: the first test split, or val]"
    ),
]

Json = Annotated[bool, flag("Print the result as JSON.", "--json")]
Device = Annotated[
    DeviceName, option(None, "Device; auto: a CUDA GPU if there is one, else the CPU.")
]
Precision = Annotated[
    PrecisionName, option(None, "Precision of matrix products; auto: bfloat16 on a GPU.")
]
TrainingPrecision = Annotated[
    PrecisionName,
    option(None, "Precision of matrix products; auto: bfloat16 if the hardware has it."),
]
Threads = Annotated[
    int | None, option("N", "CPU threads.  [default: one per core]", min=1, max=MOST_THREADS)
]


@dataclass(frozen=True)
class HardwareOptions(CommandOptions):
    """The options for device, precision and CPU threads."""

    heading = "Hardware"
    device: Device = "auto"
    precision: Annotated[
        SearchPrecisionName,
        option(None, "Precision of matrix products; auto: bfloat16 on a GPU; int8: CPU only."),
    ] = "auto"
    threads: Threads = None


@contextmanager
def prefix_errors(prefix: str, suffix: str = "") -> Iterator[None]:
    """Put ``prefix`` before the message of an error about an option, and ``suffix`` after it."""
    try:
        yield
    except (UsageError, InputError, MissingExtraError) as error:
        raise type(error)(f"{prefix}{error}{suffix}") from error


def read_path(given: object) -> Path:
    """Return a path or URL from the command line; raise UsageError if it is not allowed."""
    try:
        return locations.text_path(str(given))
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_output(
    path: Path,
    option: str = "-o",
    inputs: Iterable[tuple[str, Path | None]] = (),
    runs: Iterable[Path] = (),
) -> None:
    """Check, before long work, that ``path``, which was given with ``option``, can be written.

    ``inputs`` has pairs of an option and the file that it reads; ``path`` must not be such a file.
    ``runs`` has the directories of runs and exported models that the command reads.
    """
    if str(path) == "-":
        raise UsageError(f"{option} needs the name of a file")
    for name, other in inputs:
        if other is not None and files.is_same_file(path, other):
            raise UsageError(f"{option} {path}: is the file that {name} reads; give another one")
    if locations.is_url(path):
        raise UsageError(f"{option} {path}: output cannot be a URL; give the name of a file")
    if path.is_dir():
        raise UsageError(f"{option} {path}: is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no directory {path.parent}; create it first")
    directory.check_outside_runs(path, option, runs)
    text_files.compressor(path)  # raises an error if its package is missing
    if files.is_stream(path):
        return
    if not os.access(path.resolve().parent, os.W_OK):
        raise UsageError(f"{option} {path}: its directory is not writable; give another directory")


@dataclass(frozen=True)
class RunOptions(CommandOptions):
    """The options of ``train`` for the config, changed settings, and the run directory."""

    heading = "Input and output"
    config: Annotated[
        Path | None,
        argument("CONFIG", "YAML file of the experiment."),
    ] = None
    run_dir: RunDir = None
    set_: Set = None
    overwrite: Overwrite = False
    dry_run: Annotated[bool, flag("Print a summary and exit without training.", "--dry-run")] = (
        False
    )


@dataclass(frozen=True)
class TrainOptions(HardwareOptions, RunOptions):
    """All options of ``train``: config, run directory and hardware."""

    heading = "Hardware"
    precision: TrainingPrecision = "auto"

    def concerns_extensions(self) -> bool:
        """Return whether no config was given, because only extensions can train without one."""
        return self.config is None


class TrainExtra(ExtraOptions):
    """The base class of options that an extension adds to ``train``."""

    def around(self, train: Callable[[TrainOptions], str], given: TrainOptions) -> str:
        """Call ``train``, perhaps with other options; return the final message."""
        return train(given)

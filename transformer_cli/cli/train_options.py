"""The options of ``train``, and the base class of those that extensions add."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions, argument, flag


@dataclass(frozen=True)
class RunOptions(CommandOptions):
    """What is trained, and where."""

    heading = "Input and output"
    config: Annotated[
        Path | None,
        argument("CONFIG", "YAML file of the experiment.", completes="config"),
    ] = None
    run_dir: options.RunDir = None
    set_: options.Set = None
    overwrite: options.Overwrite = False
    extend: Annotated[
        bool, flag("Train a complete run further, if the settings now say so.", "--extend")
    ] = False
    dry_run: Annotated[bool, flag("Print a summary, then exit without training.", "--dry-run")] = (
        False
    )
    json: options.Json = False
    allow_suspect_data: options.AllowSuspectData = False


@dataclass(frozen=True)
class TrainOptions(RunOptions):
    """The options of ``train``."""

    heading = "Hardware"
    device: options.Device = "auto"
    precision: options.TrainingPrecision = "auto"
    threads: options.Threads = None

    def check(self) -> None:
        """Make sure, before long work, that the options go together."""
        self.check_extras()
        if self.extend and self.overwrite:
            raise UsageError(
                "--extend: not with --overwrite, which starts over; leave one of them out"
            )
        if self.json and not self.dry_run:
            raise UsageError("--json: is for --dry-run, which is missing; add it")


class TrainExtra(ExtraOptions):
    """Options that an extension adds to ``train``."""

    def around(self, train: Callable[[TrainOptions], str], given: TrainOptions) -> str:
        """Call ``train``, perhaps with other options; return what to say at the end."""
        return train(given)

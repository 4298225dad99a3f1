"""The directory of a distillation: its paths, and the record of its stages."""

import json
import os.path
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.compression import write_text
from transformer_cli.config.choices import PrecisionName
from transformer_cli.errors import RunError, UsageError
from transformer_cli.files import (
    TEMPORARY_MARK,
    check_no_links,
    read_small,
    remove_leftovers,
    sha256,
)
from transformer_cli.packages import __version__
from transformer_cli.runs.directory import LOCK, RunDirectory

FORMAT = 1
_PROGRAM = "transformer-cli distill"
_OURS = ("text", "forward", "back", "scores")


class StageRecord(BaseModel):
    """What a stage was begun with, and what it has made."""

    model_config = ConfigDict(extra="forbid", strict=True)

    inputs: dict[str, str]
    """Settings and SHA-256 sums, by name."""
    binding: list[str] = []
    """Options that an unfinished stage goes on with only."""
    outputs: dict[str, str] | None = None
    """SHA-256 by path, seen from the directory; None: it is not finished."""
    lines_per_second: float | None = None


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: int = FORMAT
    program: str = _PROGRAM
    version: str = __version__
    training_precision: PrecisionName | None = None
    stages: dict[str, StageRecord] = {}


@dataclass
class DistillDirectory:
    """The paths of one distillation; creating this object touches no file."""

    path: Path
    _record: _Record = field(default_factory=_Record)

    @property
    def record_path(self) -> Path:
        """Path of the record, which also marks the directory."""
        return self.path / "distill.json"

    @property
    def student_config(self) -> Path:
        """Path of the student's configuration, with all that it is trained on."""
        return self.path / "student.yaml"

    @property
    def student(self) -> RunDirectory:
        """The student's run."""
        return RunDirectory(self.path / "student")

    def text(self, split: str, side: str) -> Path:
        """Return the path of a split's side: 'src' or 'tgt'."""
        return self.path / "text" / f"{split}.{side}"

    def translation(self, direction: str, text: str, side: str) -> Path:
        """Return the path of a text's translation."""
        return self.path / direction / f"{text}.{side}"

    def candidates(self, direction: str, text: str) -> Path:
        """Return the path of a text's n-best lists."""
        return self.path / direction / f"{text}.nbest.jsonl"

    def scores(self, model: str) -> Path:
        """Return the path of a model's scores on the validation text."""
        return self.path / "scores" / f"{model}.json"

    def open(self) -> None:
        """Read the record, if there is one.

        Raises:
            UsageError: the directory holds something else, or a later version has written it.
            RunError: the record is damaged, or the directory holds links, pipes or devices.
        """
        try:
            text = read_small(self.record_path)
        except FileNotFoundError:
            self._check_empty()
            check_no_links(self.path)
            return
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be read ({error.strerror}); choose another directory with "
                "--dir"
            ) from error
        try:
            record = _Record.model_validate_json(text)
        except ValidationError as error:
            raise RunError(
                f"{self.record_path}: damaged, or of another version of transformer-cli; delete "
                f"{self.path}, or choose another directory with --dir"
            ) from error
        check_no_links(self.path)
        self._record = record

    def _check_empty(self) -> None:
        if self.path.is_dir() and any(
            path.name != LOCK and TEMPORARY_MARK not in path.name for path in self.path.iterdir()
        ):
            raise UsageError(
                f"{self.path}: holds files but no distillation (no {self.record_path.name}); "
                "choose another directory with --dir"
            )

    def remove_leftovers(self) -> None:
        """Remove what a killed process left unfinished; nobody else may be writing here."""
        for directory in (self.path, *(self.path / name for name in _OURS)):
            if directory.is_dir():
                remove_leftovers(directory, ours=("*",))

    # --- the record -------------------------------------------------------------------------------

    @property
    def training_precision(self) -> PrecisionName | None:
        """What ``--precision auto`` stands for in all trainings; None: that was not measured."""
        return self._record.training_precision

    def record_training_precision(self, precision: PrecisionName) -> None:
        """Record what ``--precision auto`` stands for."""
        self._record.training_precision = precision
        self._write()

    def stage(self, name: str) -> StageRecord | None:
        """Return the record of a stage; None: it was never begun."""
        return self._record.stages.get(name)

    def record(self, name: str, stage: StageRecord) -> None:
        """Record a stage."""
        self._record.stages[name] = stage
        self._write()

    def sums(self, paths: Iterable[Path]) -> dict[str, str]:
        """Return the SHA-256 of each file, by its path seen from this directory.

        Raises:
            OSError: one cannot be read.
        """
        return {_relative(path, self.path): sha256(path) for path in paths}

    def is_intact(self, stage: StageRecord) -> bool:
        """Return whether a stage is finished, and what it has made is as it was."""
        if stage.outputs is None:
            return False
        try:
            return self.sums(self.path / name for name in stage.outputs) == stage.outputs
        except OSError:
            return False

    def line_rates(self) -> list[float]:
        """Return the lines a second of the stages that have translated."""
        rates = [stage.lines_per_second for stage in self._record.stages.values()]
        return [rate for rate in rates if rate is not None]

    def _write(self) -> None:
        self._record.version = __version__
        text = json.dumps(self._record.model_dump(mode="json"), indent=1, ensure_ascii=False)
        write_text(self.record_path, text + "\n")


def _relative(path: Path, start: Path) -> str:
    # The directory may be a link, behind which .. leads elsewhere.
    return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()

"""A job: an ordinary command that makes something once from its inputs; and the record of that."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from transformer_cli.base import files, writing
from transformer_cli.base.artifact import Artifact, FileRecord, sum_json, write_record
from transformer_cli.base.compression import write_text
from transformer_cli.base.errors import TransformerCliError, UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.data.corpus import PairSource
from transformer_cli.data.sources import open_split, open_training_text
from transformer_cli.extensions.cluster import fence
from transformer_cli.extensions.cluster.start import HIDDEN_PREFIX
from transformer_cli.extensions.corpora.preparing import UnpreparedSplit
from transformer_cli.extensions.corpora.settings import PATH_KEYS, CorpusData
from transformer_cli.extensions.exchange.hub_model import CONFIG as HUB_CONFIG
from transformer_cli.extensions.experiments.groups import JobRecord, job_file
from transformer_cli.runs.checkpoint import MANIFEST, find_checkpoint
from transformer_cli.runs.directory import LOCK, RunDirectory, check_unlocked
from transformer_cli.runs.initialize import rename_run

FORMAT = 1


@dataclass(frozen=True)
class Job:
    """Something to be done once, as long as its inputs stay as they are.

    Paths of jobs are of the coordinator: ``inputs``, ``outputs``, ``prepare`` and ``discard`` are
    called where the sweep or the distillation runs, only ``command`` where the executor has it.
    """

    name: str  # also the path of its record and log below jobs/
    inputs: Callable[[], Mapping[str, str]]
    """Settings and SHA-256 sums that decide the outputs; called once what it needs is done."""
    outputs: Callable[[], Sequence[Path]]  # the files whose sums are recorded, once it is done
    command: Sequence[str] = ()  # arguments of transformer-cli; none: ``prepare`` does it all
    needs: Sequence[str] = ()  # names of jobs that have to be done first
    stdout: Path | None = None  # the file that the command's output becomes
    prepare: Callable[[], object] = lambda: None
    """Called before the command, each time that it is started."""
    discard: Callable[[], Path | None] = lambda: None
    """Removes what was made of other inputs, finished or not, or returns where it is set aside."""
    resumes_with: Sequence[str] = ()
    """Options that it resumes with only: one file has one precision."""
    config: Config | None = None  # the settings of what is trained
    run: RunDirectory | None = None  # where it is trained
    text: Path | None = None  # what is translated
    candidates: int = 1  # translations of each of its lines


@dataclass
class JobDirectory:
    """The directory of a sweep or a distillation: its mark, and the records of its jobs.

    Creating this object touches no file.
    """

    kind: ClassVar[str]  # the command that makes it
    noun: ClassVar[str]
    option: ClassVar[str]  # of the command, by which another directory is chosen

    path: Path
    done: set[str] = field(default_factory=set)  # names of jobs that are known to be done
    failed: dict[str, str] = field(default_factory=dict)
    """Messages of jobs that have failed since this object was made; the next one tries again."""
    _begun: dict[str, tuple[JobRecord, float | None]] = field(default_factory=dict)

    @property
    def mark(self) -> Path:
        """Path of the file that marks the directory."""
        return self.path / f"{self.kind}.json"

    def read_mark(self) -> dict[str, Any] | None:
        """Return what marks the directory; None: it is not one of this kind."""
        mark = files.read_json(self.mark)
        if not isinstance(mark, dict) or mark.get("program") != f"transformer-cli {self.kind}":
            return None
        if mark.get("format") != FORMAT:
            raise self._refusal(
                f"format {mark.get('format')}, by transformer-cli {mark.get('version')}, but this "
                f"version knows format {FORMAT}; use that version, or"
            )
        return mark

    @property
    def training_precision(self) -> PrecisionName | None:
        """What ``--precision auto`` stands for in all trainings; None: that was not measured."""
        known = (self.read_mark() or {}).get("training_precision")
        return known if known in ("float32", "bfloat16") else None

    @property
    def precision(self) -> PrecisionName | None:
        """The option ``--precision`` that it was begun with; None: that was not recorded."""
        of_earlier_version = "auto" if self.training_precision else None
        known = (self.read_mark() or {}).get("precision", of_earlier_version)
        return known if known in ("auto", "float32", "bfloat16") else None

    def check(self) -> None:
        """Check that it is of this kind and version, or empty, or not there; and has no links."""
        if self.path.exists() and not self.path.is_dir():
            raise self._refusal("cannot be made (File exists);")
        # What another process, or a killed one, has just begun.
        beginning = (LOCK, HIDDEN_PREFIX, f"{self.mark.name}{writing.TEMPORARY_MARK}")
        is_foreign = self.path.is_dir() and any(
            not path.name.startswith(beginning) for path in self.path.iterdir()
        )
        if is_foreign and self.read_mark() is None:
            mark = f"no {self.mark.name} of transformer-cli's"
            raise self._refusal(f"holds files but no {self.noun} ({mark});")
        files.check_no_links(self.path)

    def create(self, **values: object) -> None:
        """Create the directory unless it is there, and mark it; raise what ``check`` does."""
        self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refusal(f"cannot be made ({error.strerror});") from error
        program = f"transformer-cli {self.kind}"
        mark = {"format": FORMAT, "program": program, "version": __version__, **values}
        if self.read_mark() != mark:
            write_text(self.mark, json.dumps(mark, ensure_ascii=False) + "\n")

    def _refusal(self, problem: str) -> UsageError:
        return UsageError(f"{self.path}: {problem} choose another directory with {self.option}")

    def remove_leftovers(self) -> None:
        """Remove what killed processes have left unfinished, but for that in runs."""
        writing.remove_leftovers(self.path)
        for name in ("jobs", "scores", "text", "forward", "back"):
            for directory, _, _ in os.walk(self.path / name):
                writing.remove_leftovers(Path(directory))

    def file(self, job: str, ending: str) -> Path:
        """Return the path of a job's file: .json, its record; .log, .stop or .owner."""
        return job_file(self.path, job, ending)

    def _record_of(self, job: str) -> Artifact[JobRecord]:
        path = self.file(job, ".json").relative_to(self.path)
        return Artifact(self.path, JobRecord, path.as_posix())

    def read(self, job: str) -> JobRecord | None:
        """Return a job's record; None: it never began."""
        return self._record_of(job).read()

    def is_done(self, job: Job) -> bool:
        """Return whether a job's outputs are there, and made of its present inputs."""
        if job.name in self.done:
            return True
        record = self.read(job.name)
        if record is None or record.state != "done" or record.made_of != job.inputs():
            return False
        if self._record_of(job.name).find_damage(record):
            return False
        self.done.add(job.name)
        return True

    def seems_done(self, job: Job) -> bool:
        """Return whether a job is done, as far as can be seen before what it needs is done."""
        try:
            return self.is_done(job)
        except (OSError, TransformerCliError):
            return False

    def begin(self, job: Job) -> tuple[bool, str]:
        """Record that a job begins; return whether anew, and what becomes of an earlier one."""
        inputs = dict(job.inputs())
        known = self.read(job.name)
        reason = None if known is None else _find_change(known, job, inputs)
        # A training that has ended, and whose files are others now, is resumed.
        is_resumed = known is not None and (
            reason is None or (known.made_of == inputs and job.config is not None)
        )
        news = [f"again, as {reason}"] if reason and not is_resumed else []
        if not is_resumed:
            fence.lift_fence(self.file(job.name, ".owner"))  # it may still run on a cluster
        if not is_resumed and (earlier := job.discard()):
            news.append(f"the earlier one is now {earlier.as_posix()}")
        record = JobRecord(made_of=inputs, options=list(job.resumes_with))
        self._write(job.name, record)
        self._begun[job.name] = record, None if is_resumed else time.monotonic()
        return not is_resumed, "; ".join(news)

    def finish(self, job: Job) -> None:
        """Record what a job has made; raise TransformerCliError or OSError if it is not there."""
        record, began = self._begun.pop(job.name)
        record.files = {
            # The directory may be a link, behind which .. leads elsewhere.
            Path(os.path.relpath(path.resolve(), self.path.resolve())).as_posix(): FileRecord(
                size=path.stat().st_size, sha256=files.sha256(path)
            )
            for path in job.outputs()
        }
        record.state = "done"
        record.seconds = None if began is None else time.monotonic() - began
        self._write(job.name, record)
        self.done.add(job.name)

    def end(self, job: Job, state: Literal["failed", "pruned"], message: str = "") -> None:
        """Record that a job has failed, or was given up early."""
        if state == "failed":
            self.failed[job.name] = message
        # What is done stays so where it cannot be looked at now, as a file of its inputs is gone.
        if (record := self.read(job.name)) and record.state != "done":
            self._write(job.name, record.model_copy(update={"state": state, "message": message}))

    def _write(self, job: str, record: JobRecord) -> None:
        path = self.file(job, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, record)


def _find_change(known: JobRecord, job: Job, inputs: Mapping[str, str]) -> str | None:
    """Return why a job that was begun cannot be resumed; None: it can."""
    keys = {**known.made_of, **inputs}
    changed = [key for key in keys if known.made_of.get(key) != inputs.get(key)]
    if changed:
        return f"{', '.join(changed)} changed"
    if known.state == "done":
        return "what it has made was changed, or is gone"
    if known.options != list(job.resumes_with):
        return f"it was begun with {' '.join(known.options)}"
    return None


def compose_config(
    command: str, output: Path, settings: Mapping[str, object], here: Path | None = None
) -> str:
    """Return the configuration that a command writes; paths below ``here`` start from there."""

    def default(value: Section | Path) -> object:
        if isinstance(value, Section):
            return value.model_dump()
        if here is not None and value.is_relative_to(here):
            value = value.relative_to(here)
        return value.as_posix()

    def line(key: str, value: object) -> str:  # JSON is YAML
        return f"{key}: {json.dumps(value, ensure_ascii=False, default=default)}\n"

    text = f"# Written by transformer-cli {command}. To train it again elsewhere:\n"
    text += f"#   transformer-cli train {output.as_posix()} --run-dir DIR\n"
    for key, value in settings.items():
        if isinstance(value, dict):
            text += f"{key}:\n" + "".join(f"  {line(*setting)}" for setting in value.items())
        else:
            text += line(key, value)
    return text


# --- fingerprints ---------------------------------------------------------------------------------


def set_aside(run: RunDirectory) -> Path | None:
    """Rename a run that has checkpoints, as ``train --overwrite`` does; return where it is now."""
    check_unlocked(run, fence.FENCE.patience)  # by a process that has just been ended
    return rename_run(run)


def weights_record(run: RunDirectory) -> Path:
    """Return the file that has the SHA-256 of a run's best weights."""
    if run.is_hub_model:
        return run.path / HUB_CONFIG
    return find_checkpoint(run.checkpoints, "best") / MANIFEST


def describe_model(run: RunDirectory) -> str:
    """Return the sum of a run's weights and of how it searches."""
    return sum_json([files.sha256(weights_record(run)), run.load_config().decoding.fingerprint()])


TRAINED_ON = ("train", "val")
"""The splits that decide a run's weights, and which of them is the best."""

# Whose bytes count, and not where they lie: a project may be moved.
_PATHS: dict[str, Any] = {
    "init": True,
    "data": {
        **dict.fromkeys(("train", "val", "test", "more"), True),
        "sources": {"__all__": set(PATH_KEYS)},
        "replay": {"sources": {"__all__": set(PATH_KEYS)}},
    },
    "tokenizer": {f"{side}{key}" for side in ("", "src_", "tgt_") for key in ("model", "file")},
}


def open_text(config: Config, split: str, corpus: Path | None = None) -> PairSource:
    """Return the text of a split; ``train`` is all text that is trained on.

    ``corpus`` is the directory of the prepared corpus, which data of kind corpus needs.
    """
    if split == "train":
        return open_training_text(config.data, corpus)
    return open_split(config.data, split, corpus)


def sum_texts(config: Config, splits: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the text of each split."""
    data = config.data
    if isinstance(data, CorpusData):
        return {split: UnpreparedSplit(data, split).source_sha256() for split in splits}
    return {split: open_text(config, split).source_sha256() for split in splits}


def describe_training(config: Config) -> dict[str, str]:
    """Return the sums of what a run's weights depend on, but for its text."""
    init = {} if config.init is None else {"init": describe_model(RunDirectory(config.init))}
    paths = config.tokenizer.files.items()
    tokenizer = {f"tokenizer {side}": files.sha256(path) for side, path in paths}
    added = [(each.tag, each.weight) for each in getattr(config.data, "more", ())]
    more = {"more": sum_json(added)} if set(added) - {(None, 1.0)} else {}
    return {"settings": config.fingerprint(exclude=_PATHS), **more, **init, **tokenizer}

"""Jobs: ordinary commands that each make something once from its inputs, and their records."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from transformer_cli.base import files, writing
from transformer_cli.base.artifact import Artifact, FileRecord, Record, sum_json, write_record
from transformer_cli.base.errors import TransformerCliError, UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.data.corpus import PairSource
from transformer_cli.data.kinds import open_split, open_training_text
from transformer_cli.extensions.cluster import fence
from transformer_cli.extensions.cluster.start import HIDDEN_PREFIX
from transformer_cli.extensions.corpora.preparing import UnpreparedSplit
from transformer_cli.extensions.corpora.settings import PATH_KEYS, CorpusData
from transformer_cli.runs.checkpoint import MANIFEST, find_checkpoint
from transformer_cli.runs.directory import LOCK, RunDirectory, check_unlocked
from transformer_cli.runs.initialize import rename_run

FORMAT = 1


@dataclass(frozen=True)
class Job:
    """Something to do once, and again only if its inputs change.

    ``inputs``, ``outputs``, ``prepare`` and ``discard`` are called in the process of the sweep or
    the distillation; only ``command`` runs where the executor runs it.
    """

    name: str  # also the path of its record and log in jobs/
    inputs: Callable[[], Mapping[str, str]]
    """Settings and SHA-256 sums that decide the outputs; called when all that it needs is done."""
    outputs: Callable[[], Sequence[Path]]  # files whose sums are recorded when it is done
    command: Sequence[str] = ()  # arguments of transformer-cli; none: ``prepare`` does everything
    needs: Sequence[str] = ()  # names of jobs that must be done first
    stdout: Path | None = None  # the file that the command's output is written to
    prepare: Callable[[], object] = lambda: None
    """Called each time before the command starts."""
    discard: Callable[[], Path | None] = lambda: None
    """Removes what other inputs have made, finished or not, or returns where it was moved."""
    config: Config | None = None  # of a training: its settings
    run: RunDirectory | None = None  # of a training: where it is


class JobRecord(Record):
    """The inputs of a job, and how it went."""

    state: Literal["begun", "done", "failed", "pruned"] = "begun"
    message: str = ""  # why it failed


def job_file(directory: Path, name: str, ending: str = ".json") -> Path:
    """Return the path of a job's record, or of another of its files."""
    return directory / "jobs" / f"{name}{ending}"


@dataclass
class JobDirectory:
    """The directory of a sweep or a distillation: its mark, and the records of its jobs.

    Creating this object touches no file.
    """

    kind: ClassVar[str]  # the command that makes it
    noun: ClassVar[str]  # what messages call it
    option: ClassVar[str]  # the command's option that names it

    path: Path
    done: set[str] = field(default_factory=set)  # names of the jobs that are known to be done
    failed: dict[str, str] = field(default_factory=dict)
    """Messages of the jobs that have failed since this object was made; another one retries."""
    _begun: dict[str, JobRecord] = field(default_factory=dict)

    @property
    def mark(self) -> Path:
        return self.path / f"{self.kind}.json"

    def read_mark(self) -> dict[str, Any] | None:
        """Return the content of the mark; None: the directory is not of this kind."""
        mark = files.read_json(self.mark)
        if not isinstance(mark, dict) or mark.get("program") != f"transformer-cli {self.kind}":
            return None
        if mark.get("format") != FORMAT:
            raise self._refusal(
                f"format {mark.get('format')}, by transformer-cli {mark.get('version')}, but this "
                f"version knows format {FORMAT}; use that version, or"
            )
        return mark

    def check(self) -> None:
        """Check that it is of this kind and version, or empty, or missing, and has no links."""
        if self.path.exists() and not self.path.is_dir():
            raise self._refusal("cannot be made (File exists);")
        # Another process, or one that was killed, may have just begun.
        beginning = (LOCK, HIDDEN_PREFIX, f"{self.mark.name}{writing.TEMPORARY_MARK}")
        is_foreign = self.path.is_dir() and any(
            not path.name.startswith(beginning) for path in self.path.iterdir()
        )
        if is_foreign and self.read_mark() is None:
            mark = f"no {self.mark.name} of transformer-cli's"
            raise self._refusal(f"holds files but no {self.noun} ({mark});")
        files.check_no_links(self.path)

    def create(self, **values: object) -> None:
        """Create the directory if it is missing, and mark it; raise what ``check`` raises."""
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
        for directory, _, _ in os.walk(self.path):
            with suppress(FileNotFoundError):  # a job on a cluster has just removed it
                writing.remove_leftovers(Path(directory))

    def file(self, job: str, ending: str) -> Path:
        """Return the path of a job's record (.json), or of its .log, .stop or .owner."""
        return job_file(self.path, job, ending)

    def _record_of(self, job: str) -> Artifact[JobRecord]:
        path = self.file(job, ".json").relative_to(self.path)
        return Artifact(self.path, JobRecord, path.as_posix())

    def read(self, job: str) -> JobRecord | None:
        return self._record_of(job).read()

    def is_done(self, job: Job) -> bool:
        """Return whether a job's outputs exist and were made from its present inputs."""
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
        """Return whether a job is done, as far as that can be told before the jobs it needs."""
        try:
            return self.is_done(job)
        except (OSError, TransformerCliError):
            return False

    def begin(self, job: Job) -> tuple[bool, str]:
        """Record that a job begins; return whether it is new, and what happens to an old one."""
        inputs = dict(job.inputs())
        known = self.read(job.name)
        keys = {} if known is None else {**known.made_of, **inputs}
        changed = [key for key in keys if known and known.made_of.get(key) != inputs.get(key)]
        # A finished training whose files have changed is resumed.
        is_kept = known is not None and (known.state != "done" or job.config is not None)
        is_resumed = is_kept and not changed
        news = []
        if known is not None and not is_resumed:
            what = f"{', '.join(changed)} changed" if changed else "its outputs were changed"
            news.append(f"again, as {what}{'' if changed else ' or are missing'}")
        if not is_resumed:
            fence.lift_fence(self.file(job.name, ".owner"))  # the old one may run on a cluster
            if earlier := job.discard():
                news.append(f"the earlier one is now {earlier.as_posix()}")
        record = JobRecord(made_of=inputs)
        self._write(job.name, record)
        self._begun[job.name] = record
        return not is_resumed, "; ".join(news)

    def finish(self, job: Job) -> None:
        """Record a job's outputs; raise TransformerCliError or OSError if they are missing."""
        record = self._begun.pop(job.name)
        record.files = {
            # The directory may be a link, behind which .. leads elsewhere.
            Path(os.path.relpath(path.resolve(), self.path.resolve())).as_posix(): FileRecord(
                size=path.stat().st_size, sha256=files.sha256(path)
            )
            for path in job.outputs()
        }
        record.state = "done"
        self._write(job.name, record)
        self.done.add(job.name)

    def end(self, job: Job, state: Literal["failed", "pruned"], message: str = "") -> None:
        """Record that a job has failed, or was given up early."""
        if state == "failed":
            self.failed[job.name] = message
        # A finished job stays finished, even if it cannot be checked because an input is missing.
        if (record := self.read(job.name)) and record.state != "done":
            self._write(job.name, record.model_copy(update={"state": state, "message": message}))

    def _write(self, job: str, record: JobRecord) -> None:
        path = self.file(job, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, record)


def compose_config(
    command: str, output: Path, settings: Mapping[str, object], here: Path | None = None
) -> str:
    """Return the text of a configuration that a command writes.

    Paths in the directory ``here`` are written as relative to it.
    """

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
    """Rename a run that has checkpoints, as ``train --overwrite`` does; return its new path."""
    check_unlocked(run, fence.FENCE.patience)  # a process that was just ended may hold the lock
    return rename_run(run)


def weights_record(run: RunDirectory) -> Path:
    """Return the file that records the SHA-256 of a run's best weights."""
    if run.exported:
        return run.exported.record
    return find_checkpoint(run.checkpoints, "best") / MANIFEST


def describe_model(run: RunDirectory) -> str:
    """Return a checksum of a run's weights and its search settings."""
    return sum_json([files.sha256(weights_record(run)), run.load_config().decoding.fingerprint()])


TRAINED_ON = ("train", "val")
"""The splits that decide a run's weights, and which checkpoint is the best."""

# Their content counts, not their paths: a project may be moved.
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
    """Return the text of a split; ``train`` is all training text.

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
    """Return checksums of all that a run's weights depend on, except its text."""
    init = {} if config.init is None else {"init": describe_model(RunDirectory(config.init))}
    paths = getattr(config.tokenizer, "files", {}).items()  # of kinds that copy files
    tokenizer = {f"tokenizer {side}": files.sha256(path) for side, path in paths}
    added = [(each.tag, each.weight) for each in getattr(config.data, "more", ())]
    more = {"more": sum_json(added)} if set(added) - {(None, 1.0)} else {}
    return {"settings": config.fingerprint(exclude=_PATHS), **more, **init, **tokenizer}

"""The jobs of sweeps and distillations, which make files once, and the records of the files."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from transformer_cli.base import files, writing
from transformer_cli.base.artifact import Artifact, FileRecord, Record, sum_json, write_record
from transformer_cli.base.errors import ConfigError, TransformerCliError, UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.data.corpus import PairSource
from transformer_cli.data.kinds import open_split, open_training_text
from transformer_cli.extensions.corpora.preparing import sum_unprepared
from transformer_cli.extensions.corpora.settings import PATH_KEYS, CorpusData
from transformer_cli.runs.checkpoint import MANIFEST, find_checkpoint, list_checkpoints, parse_step
from transformer_cli.runs.directory import LOCK, RunDirectory
from transformer_cli.runs.initialize import load_newest_state

FORMAT = 1


@dataclass(frozen=True)
class Job:
    """A task of a sweep or distillation; it is done once, and again only if its inputs change."""

    name: str  # also the path of its record and log in jobs/
    inputs: Callable[[], Mapping[str, str]] = dict
    """Returns what the outputs depend on, e.g. checksums, by name; called after all needed jobs."""
    outputs: Callable[[], Sequence[Path]] | None = None
    """Returns the files whose checksums are recorded; None for a job that only trains ``run``."""
    command: Sequence[str] = ()  # arguments of transformer-cli; none: ``prepare`` does everything
    needs: Sequence[str] = ()  # names of jobs that must be done first
    stdout: Path | None = None  # the file for the command's output
    prepare: Callable[[], object] = lambda: None  # called before each start of the command
    discard: Callable[[], Path | None] = lambda: None
    """Removes outputs made from other inputs, or moves them and returns their new path."""
    config: Config | None = None  # the settings, if it is a training
    run: RunDirectory | None = None  # the run, if it is a training

    def __post_init__(self) -> None:
        """Raise ConfigError if the length of a training would depend on the machine's load."""
        if self.config and getattr(self.config.training, "max_minutes", None) is not None:
            problem = "runs would differ in their numbers of steps; set training.max_steps instead"
            raise ConfigError(f"training.max_minutes: {problem}")


def is_trained(run: RunDirectory, config: Config) -> bool:
    """Return whether a run's training has finished: no step or validation is left."""
    state = load_newest_state(run)
    return state is not None and state.is_final(config.training)


@dataclass
class JobDirectory:
    """The directory of a sweep or distillation, with a marker file and its jobs' records.

    The marker file is sweep.json or distill.json. Creating this object touches no files.
    """

    kind: ClassVar[str]  # the command that creates it
    option: ClassVar[str]  # the command's option that names it
    beforehand: ClassVar[tuple[str, ...]] = ()  # names that may exist before the marker file

    path: Path
    done: set[str] = field(default_factory=set)  # names of the jobs known to be done

    @property
    def mark(self) -> Path:
        return self.path / f"{self.kind}.json"

    def read_mark(self) -> dict[str, Any] | None:
        """Return the marker file's content; None if it is missing or not from this command."""
        mark = files.read_json(self.mark)
        if not isinstance(mark, dict) or mark.get("program") != f"transformer-cli {self.kind}":
            return None
        if mark.get("format") != FORMAT:
            raise self._refusal(
                f"format {mark.get('format')}, by transformer-cli {mark.get('version')}, but this "
                f"version knows format {FORMAT}; use that version, or"
            )
        return mark

    def check(self, precision: str) -> None:
        """Raise UsageError unless this version and precision can run jobs in the directory."""
        if self.path.exists() and not self.path.is_dir():
            raise self._refusal("cannot be created (File exists);")
        # Another process, even one that was killed, may have just begun.
        beginning = (LOCK, f"{self.mark.name}{writing.TEMPORARY_MARK}", *self.beforehand)
        is_foreign = self.path.is_dir() and any(
            not path.name.startswith(beginning) for path in self.path.iterdir()
        )
        mark = self.read_mark()
        if is_foreign and mark is None:
            raise self._refusal(f"contains files, but no {self.mark.name} from transformer-cli;")
        files.check_no_links(self.path)
        begun = precision if mark is None else mark.get("precision")
        if begun != precision:
            how = f"begun with --precision {begun}, not {precision}"
            raise self._refusal(f"{how}; resume it with that precision, or")

    def create(self, precision: str, **values: object) -> None:
        """Create the directory if needed, and write its marker file; raise ``check``'s errors."""
        self.check(precision)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refusal(f"cannot be created ({error.strerror});") from error
        mark = {"format": FORMAT, "program": f"transformer-cli {self.kind}", "version": __version__}
        mark |= {"precision": precision, **values}
        if self.read_mark() != mark:
            write_text(self.mark, json.dumps(mark, ensure_ascii=False) + "\n")

    def _refusal(self, problem: str) -> UsageError:
        return UsageError(f"{self.path}: {problem} choose another directory with {self.option}")

    def remove_leftovers(self) -> None:
        for directory, _, _ in os.walk(self.path):
            writing.remove_leftovers(Path(directory))

    def file(self, job: str, ending: str) -> Path:
        """Return the path of a job's file with this extension, e.g. .json (its record) or .log."""
        return self.path / "jobs" / f"{job}{ending}"

    def _record_of(self, job: str) -> Artifact[Record]:
        return Artifact(self.path, Record, f"jobs/{job}.json")

    def read(self, job: str) -> Record | None:
        """Return a job's record; None if it has none. Until the job is done, it lists no files."""
        return self._record_of(job).read()

    def seems_done(self, job: Job) -> bool:
        """Return whether a job's outputs exist and were made from its current inputs."""
        with suppress(OSError, TransformerCliError):  # its inputs do not exist yet
            if job.name not in self.done and self._has_outputs(job):
                self.done.add(job.name)
        return job.name in self.done

    def _has_outputs(self, job: Job) -> bool:
        if job.outputs is None and job.run and job.config:
            return is_trained(job.run, job.config)
        record = self.read(job.name)
        if record is None or not record.files or record.made_of != job.inputs():
            return False
        return not self._record_of(job.name).find_damage(record)

    def begin(self, job: Job) -> str:
        """Record that a job begins; return 'started' or 'resumed', possibly with details."""
        resumed = "resumed"
        if job.run is not None:
            steps = [parse_step(path) or 0 for path in list_checkpoints(job.run.checkpoints)]
            resumed += f" from step {max(steps, default=0):,}"
            if job.outputs is None:
                return resumed if job.run.metrics.exists() else "started"
        inputs, known = dict(job.inputs()), self.read(job.name)
        old = known.made_of if known else {}
        changed = [key for key in old | inputs if old.get(key) != inputs.get(key)]
        news = "started"
        # If files of a finished training have changed, the training is resumed.
        if known and not changed and (not known.files or job.config):
            news = resumed
        else:
            moved = job.discard()
            if known:
                what = f"{', '.join(changed)} changed" if changed else "its outputs are incomplete"
                news += f" again because {what}"
            if moved:
                news += f"; the earlier one is now {moved.as_posix()}"
        path = self.file(job.name, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, Record(made_of=inputs))
        return news

    def finish(self, job: Job) -> None:
        """Record a job's outputs; raise TransformerCliError or OSError if they are missing."""
        if job.outputs is not None:
            record = self.read(job.name)
            assert record is not None
            here = self.path.resolve()  # it may be a link, so that .. would lead elsewhere
            for path in job.outputs():
                name = Path(os.path.relpath(path.resolve(), here)).as_posix()
                facts = FileRecord(size=path.stat().st_size, sha256=files.sha256(path))
                record.files[name] = facts
            write_record(self.file(job.name, ".json"), record)
        self.done.add(job.name)


def compose_config(
    command: str, output: Path, settings: Mapping[str, object], here: Path | None = None
) -> str:
    """Return the YAML of a config that a command writes to ``output``.

    Paths inside the directory ``here`` are made relative to it.
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


def weights_record(run: RunDirectory) -> Path:
    """Return the path of the file that records the SHA-256 of a run's best weights."""
    if run.exported:
        return run.exported.record
    return find_checkpoint(run.checkpoints, "best") / MANIFEST


def describe_model(run: RunDirectory) -> str:
    """Return a checksum of a run's best weights and search settings."""
    return sum_json([files.sha256(weights_record(run)), run.load_config().decoding.fingerprint()])


TRAINED_ON = ("train", "val")  # what the weights and the choice of the best checkpoint depend on

# Compare the content, not the paths, because a project may be moved.
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
    """Return the text of a split; for ``train``, this includes text added to the split.

    ``corpus`` is the directory of the prepared corpus; it is needed for data of kind corpus.
    """
    if split == "train":
        return open_training_text(config.data, corpus)
    return open_split(config.data, split, corpus)


def sum_texts(config: Config, splits: Iterable[str]) -> dict[str, str]:
    """Return a SHA-256 for the text of each split, keyed by split."""
    data = config.data
    if isinstance(data, CorpusData):
        return {split: sum_unprepared(data, split) for split in splits}
    return {split: open_text(config, split).source_sha256() for split in splits}


def describe_training(config: Config) -> dict[str, str]:
    """Return checksums, keyed by name, of all that a run's weights depend on except its text."""
    init = {} if config.init is None else {"init": describe_model(RunDirectory(config.init))}
    paths = getattr(config.tokenizer, "files", {}).items()  # only kinds that copy files have them
    tokenizer = {f"tokenizer {side}": files.sha256(path) for side, path in paths}
    added = [(each.tag, each.weight) for each in getattr(config.data, "more", ())]
    more = {"more": sum_json(added)} if set(added) - {(None, 1.0)} else {}
    return {"settings": config.fingerprint(exclude=_PATHS), **more, **init, **tokenizer}

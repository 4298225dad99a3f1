"""The jobs of a distillation: train teachers, have them translate, train a student on that."""

import os.path
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal

from transformer_cli.compression import is_compressed
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.data_schema import FilePair
from transformer_cli.errors import UsageError
from transformer_cli.files import sha256
from transformer_cli.jobs.distill_file import Back, Direction, Distillation, Teacher
from transformer_cli.jobs.job import (
    Job,
    JobDirectory,
    describe_model,
    describe_training,
    weights_record,
)
from transformer_cli.jobs.student_text import (
    SIDES,
    compose_student,
    open_text,
    select_nearest,
    text_splits,
    write_texts,
)
from transformer_cli.runs.directory import RunDirectory, check_unlocked
from transformer_cli.text.tokenizer import fingerprint

_TRAINED_ON = ("train", "val")
TEXT_JOB, STUDENT_JOB = "text", "train student"


class DistillDirectory(JobDirectory):
    """The directory of a distillation."""

    kind: ClassVar[str] = "distill"
    noun: ClassVar[str] = "distillation"
    option: ClassVar[str] = "--dir"

    @property
    def training_precision(self) -> PrecisionName | None:
        """What ``--precision auto`` stands for in all trainings; None: that was not measured."""
        known = (self.read_mark() or {}).get("training_precision")
        return known if known in ("float32", "bfloat16") else None

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

    def scores(self, model: str) -> Path:
        """Return the path of a model's scores on the validation text."""
        return self.path / "scores" / f"{model}.json"


@dataclass(frozen=True)
class Text:
    """A text to translate."""

    name: str
    path: Path


@dataclass(frozen=True)
class DistillPlan:
    """The jobs of a distillation."""

    distillation: Distillation
    directory: DistillDirectory
    binding: Sequence[str]
    """Options of all commands that decide what they compute: device and precision."""
    training: Sequence[str]
    """The same of new trainings, of which all have one precision."""
    threads: Sequence[str] = ()
    """The option of all commands that does not."""
    allow_suspect_data: bool = False
    """Whether trainings have the option of this name."""

    def jobs(self) -> Iterator[Job]:
        """Yield all jobs; each reads what earlier ones have made."""
        teachers: dict[Path, Job] = {}
        for teacher in self.distillation.teachers:
            if teacher.file is not None and teacher.run.path not in teachers:
                teachers[teacher.run.path] = self._teacher_job(teacher, teacher.file)
        yield from teachers.values()
        yield self._text_job()
        translated = []
        for direction in self.distillation.directions:
            needs = [TEXT_JOB, *self._find_needs(direction.teachers)]
            for text in self._texts(direction):
                made = [*self._translation_jobs(direction, text, needs)]
                translated.append(made[-1].name)
                yield from made
        yield self._student_job([TEXT_JOB, *translated])
        yield from self._score_jobs()

    def extend(self) -> bool:
        """Return False: there are no more jobs."""
        return False

    def give_up(self, job: Job) -> Literal["pruned", "stopped"] | None:
        """Return None: all jobs are worth their time."""
        return None

    def check(self) -> None:
        """Check that the teachers of an ensemble have one tokenizer, as far as they are trained.

        Raises:
            UsageError: they have different ones.
        """
        for direction in self.distillation.directions:
            runs = [each.run for each in direction.teachers if each.run.tokenizer.is_dir()]
            for other in runs[1:]:
                if fingerprint(other.tokenizer) != fingerprint(runs[0].tokenizer):
                    raise UsageError(
                        f"{other.path}: its tokenizer is not that of {runs[0].path}, and models of "
                        "one ensemble need the same; leave one of them out"
                    )

    # --- teachers and text ------------------------------------------------------------------------

    def _teacher_job(self, teacher: Teacher, file: Path) -> Job:
        run = teacher.run

        def inputs() -> dict[str, str]:
            texts = {name: open_text(teacher.config, name).source_sha256() for name in _TRAINED_ON}
            return {**describe_training(teacher.config), **texts}

        return Job(
            f"train {run.path.as_posix()}",
            inputs,
            lambda: [weights_record(run)],
            command=self._train_command(file, run),
            config=teacher.config,
        )

    def _find_needs(self, teachers: Sequence[Teacher]) -> list[str]:
        """Return the names of the jobs that train these teachers, unless they are there."""
        return [f"train {each.run.path.as_posix()}" for each in teachers if each.file is not None]

    def _train_command(self, file: Path, run: RunDirectory) -> list[str]:
        # What was begun elsewhere goes on as it was begun: so --precision auto has it.
        options = self.binding if run.metrics.exists() else self.training
        suspect = ["--allow-suspect-data"] if self.allow_suspect_data else []
        return ["train", str(file), "--run-dir", str(run.path), *options, *self.threads, *suspect]

    def _text_job(self) -> Job:
        student, splits = self.distillation.student, text_splits(self.distillation.student)
        paths = {
            (split, side): self.directory.text(split, side) for split in splits for side in SIDES
        }
        return Job(
            TEXT_JOB,
            lambda: {split: open_text(student, split).source_sha256() for split in splits},
            lambda: [*paths.values()],
            prepare=partial(write_texts, student, paths),
        )

    def _texts(self, direction: Direction) -> Iterator[Text]:
        if direction.settings.corpus:
            yield Text("train", self.directory.text("train", direction.read))
        for number, path in enumerate(direction.settings.monolingual, start=1):
            name = path.stem if is_compressed(path) else path.name
            yield Text(f"{number}-{Path(name).stem}", path)

    # --- translations -----------------------------------------------------------------------------

    def _translation_jobs(
        self, direction: Direction, text: Text, needs: Sequence[str]
    ) -> Iterator[Job]:
        """Yield the job that translates a text, and the one that chooses among candidates."""
        settings = direction.settings
        written = output = self.directory.translation(direction.name, text.name, direction.written)
        # A monolingual text has no reference.
        n_best = None
        if direction.name == "forward" and text.name == "train":
            n_best = self.distillation.settings.forward.n_best
        if n_best is not None:
            output = written.with_name(f"{text.name}.nbest.jsonl")
        is_sampled = isinstance(settings, Back) and settings.sample
        search = {
            "--beam-size": settings.beam_size,
            "--n-best": n_best,
            "--sample": self.distillation.student.seed if is_sampled else None,
        }
        given = {key: str(value) for key, value in search.items() if value is not None}
        options = [part for option in given.items() for part in option]
        runs = [teacher.run for teacher in direction.teachers]

        def inputs() -> dict[str, str]:
            self.check()  # tokenizers of teachers that were trained just now
            models = {run.path.as_posix(): describe_model(run) for run in runs}
            return {"text": sha256(text.path), **models, "search": " ".join(options)}

        translate = Job(
            f"translate {direction.name} {text.name}",
            inputs,
            lambda: [output],
            command=translate_command(
                runs, text.path, output, [*options, *self.binding, *self.threads]
            ),
            needs=needs,
            prepare=partial(output.parent.mkdir, exist_ok=True),
            discard=partial(discard_translation, output),
            resumes_with=self.binding,
            text=text.path,
            candidates=n_best or 1,
        )
        yield translate
        if output == written:
            return
        reference = self.directory.text("train", direction.written)
        lowercase = direction.teachers[0].config.tokenizer.lowercase
        yield Job(
            f"select {direction.name} {text.name}",
            lambda: {"candidates": sha256(output), "references": sha256(reference)},
            lambda: [written],
            needs=(translate.name,),
            prepare=partial(select_nearest, output, reference, written, lowercase),
        )

    # --- the student ------------------------------------------------------------------------------

    def _synthetic(self) -> list[FilePair]:
        """Return the pairs of which models write a side."""
        pairs = []
        for direction in self.distillation.directions:
            for text in self._texts(direction):
                output = self.directory.translation(direction.name, text.name, direction.written)
                sides = {direction.read: text.path, direction.written: output}
                pairs.append(FilePair.model_validate(sides))
        return pairs

    def _student_job(self, needs: Sequence[str]) -> Job:
        config, run = self.distillation.student, self.directory.student
        keep_reference = self.distillation.settings.keep_reference

        def inputs() -> dict[str, str]:
            splits = _TRAINED_ON if keep_reference else ["val"]
            texts = {
                f"text/{split}.{side}": sha256(self.directory.text(split, side))
                for split in splits
                for side in SIDES
            }
            # By numbers, as monolingual text may lie anywhere.
            synthetic = {
                f"pair {number}'s {side}": sha256(getattr(pair, side))
                for number, pair in enumerate(self._synthetic(), start=1)
                for side in SIDES
            }
            trained = describe_training(config)
            return {**trained, "references": str(keep_reference), **texts, **synthetic}

        return Job(
            STUDENT_JOB,
            inputs,
            lambda: [self.directory.student_config, weights_record(run)],
            command=self._train_command(self.directory.student_config, run),
            needs=needs,
            prepare=self._compose_student,
            discard=partial(set_aside, run),
            config=config,
        )

    def _compose_student(self) -> None:
        compose_student(
            self.distillation.student,
            self.distillation.student_file,
            self.directory.student_config,
            self.directory.text,
            self._synthetic(),
            self.distillation.settings.keep_reference,
        )

    # --- scores -----------------------------------------------------------------------------------

    def models(self) -> dict[str, list[RunDirectory]]:
        """Return what is scored, by name: each teacher, all of them together, the student."""
        runs = [teacher.run for teacher in self.distillation.directions[0].teachers]
        models = {f"teacher-{number}": [run] for number, run in enumerate(runs, start=1)}
        if len(runs) > 1:
            models["ensemble"] = runs
        return {**models, "student": [self.directory.student]}

    def _score_jobs(self) -> Iterator[Job]:
        for name, runs in self.models().items():
            teachers = self._find_needs(self.distillation.directions[0].teachers)
            path = self.directory.scores(name)
            yield Job(
                f"score {name}",
                partial(self._describe_scoring, runs),
                partial(list[Path], [path]),
                command=evaluate_command(
                    runs,
                    self.directory.text("val", "src"),
                    self.directory.text("val", "tgt"),
                    [*self.binding, *self.threads],
                ),
                needs=[TEXT_JOB, *([STUDENT_JOB] if name == "student" else teachers)],
                stdout=path,
                prepare=partial(path.parent.mkdir, exist_ok=True),
            )

    def _describe_scoring(self, runs: Sequence[RunDirectory]) -> dict[str, str]:
        texts = {f"text/val.{side}": sha256(self.directory.text("val", side)) for side in SIDES}
        return {**texts, **{run.path.as_posix(): describe_model(run) for run in runs}}


def translate_command(
    runs: Sequence[RunDirectory], text: Path, output: Path, options: Sequence[str]
) -> list[str]:
    """Return the arguments that translate a file, and resume where that was stopped."""
    files = ["-i", str(text), "-o", str(output), "--resume"]
    return ["translate", *_ensemble(runs), *files, *options]


def evaluate_command(
    runs: Sequence[RunDirectory], src: Path, ref: Path, options: Sequence[str]
) -> list[str]:
    """Return the arguments that score models, as one ensemble, on a text."""
    texts = ["--src", str(src), "--ref", str(ref)]
    return ["evaluate", *_ensemble(runs), *texts, "--json", *options]


def _ensemble(runs: Sequence[RunDirectory]) -> list[str]:
    first, *others = (str(run.path) for run in runs)
    return [first, *(part for other in others for part in ("--ensemble", other))]


def discard_translation(output: Path) -> None:
    """Remove a translation, finished or not."""
    for ending in ("", ".partial", ".partial.json", ".partial.json.new"):
        output.with_name(output.name + ending).unlink(missing_ok=True)


def set_aside(run: RunDirectory) -> Path | None:
    """Rename a run, by the first number that is free, and return its new path; None: there is none.

    Raises:
        RunError: it is being written.
    """
    if not run.path.is_dir():
        return None
    check_unlocked(run)
    paths = (run.path.with_name(f"{run.path.name}-{number}") for number in count(1))
    return run.path.rename(next(path for path in paths if not os.path.lexists(path)))

"""The stages of a distillation, in order: what each reads, runs and writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transformer_cli.compression import is_compressed, write_text
from transformer_cli.config.data_schema import FilePair
from transformer_cli.distill.artifacts import (
    describe_model,
    describe_training,
    discard_translation,
    set_aside,
    weights_record,
)
from transformer_cli.distill.composition import (
    SIDES,
    compose_student,
    open_text,
    text_splits,
    write_texts,
)
from transformer_cli.distill.directory import DistillDirectory
from transformer_cli.distill.distill_file import Direction, Distillation, Teacher
from transformer_cli.distill.selection import select_nearest
from transformer_cli.distill.settings import Back
from transformer_cli.distill.stages import Stage, Text
from transformer_cli.errors import UsageError
from transformer_cli.files import sha256
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import fingerprint

TRAINED_ON = ("train", "val")


@dataclass(frozen=True)
class DistillPlan:
    """All stages of a distillation."""

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

    @property
    def options(self) -> list[str]:
        """Options of all commands."""
        return [*self.binding, *self.threads]

    def stages(self) -> Iterator[Stage]:
        """Yield the stages in order; each reads what earlier ones have made."""
        trained: set[Path] = set()
        for teacher in self.distillation.teachers:
            if teacher.file is not None and teacher.run.path not in trained:
                trained.add(teacher.run.path)
                yield self._teacher_stage(teacher, teacher.file)
        yield self._text_stage()
        for direction in self.distillation.directions:
            for text in self._texts(direction):
                yield from self._translation_stages(direction, text)
        yield self._student_stage()
        yield from self._score_stages()

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

    # --- teachers ---------------------------------------------------------------------------------

    def _teacher_stage(self, teacher: Teacher, file: Path) -> Stage:
        run = teacher.run
        return Stage(
            f"train {run.path.as_posix()}",
            "train",
            lambda: {
                **describe_training(teacher.config),
                **{name: open_text(teacher.config, name).source_sha256() for name in TRAINED_ON},
            },
            lambda: [weights_record(run)],
            command=self._train_command(file, run),
            config=teacher.config,
            run=run,
        )

    def _train_command(self, file: Path, run: RunDirectory) -> list[str]:
        # What was begun elsewhere goes on as it was begun: so --precision auto has it.
        options = self.binding if run.metrics.exists() else self.training
        suspect = ["--allow-suspect-data"] if self.allow_suspect_data else []
        return ["train", str(file), "--run-dir", str(run.path), *options, *self.threads, *suspect]

    # --- text -------------------------------------------------------------------------------------

    def _text_stage(self) -> Stage:
        student, splits = self.distillation.student, text_splits(self.distillation.student)
        return Stage(
            "text",
            "text",
            lambda: {split: open_text(student, split).source_sha256() for split in splits},
            lambda: [self.directory.text(split, side) for split in splits for side in SIDES],
            work=partial(write_texts, student, self.directory),
        )

    def _texts(self, direction: Direction) -> Iterator[Text]:
        if direction.settings.corpus:
            yield Text("train", self.directory.text("train", direction.read))
        for number, path in enumerate(direction.settings.monolingual, start=1):
            name = path.stem if is_compressed(path) else path.name
            yield Text(f"{number}-{Path(name).stem}", path)

    def _translation_stages(self, direction: Direction, text: Text) -> Iterator[Stage]:
        name, settings = direction.name, direction.settings
        written = self.directory.translation(name, text.name, direction.written)
        # A monolingual text has no reference.
        n_best = None
        if direction is self.distillation.directions[0] and text.name == "train":
            n_best = self.distillation.settings.forward.n_best
        output = written if n_best is None else self.directory.candidates(name, text.name)
        is_sampled = isinstance(settings, Back) and settings.sample
        asked = {
            "--beam-size": settings.beam_size,
            "--n-best": n_best,
            "--sample": self.distillation.student.seed if is_sampled else None,
        }
        chosen = [
            part for key, value in asked.items() if value is not None for part in (key, str(value))
        ]
        runs = [teacher.run for teacher in direction.teachers]
        yield Stage(
            f"translate {name} {text.name}",
            "translate",
            lambda: {
                "text": sha256(text.path),
                **{each.path.as_posix(): describe_model(each) for each in runs},
                "search": " ".join(chosen),
            },
            lambda: [output],
            work=lambda: output.parent.mkdir(exist_ok=True),
            command=translate_command(runs, text.path, output, [*chosen, *self.options]),
            discard=partial(discard_translation, output),
            binding=self.binding,
            text=text,
            candidates=n_best or 1,
        )
        if output != written:
            reference = self.directory.text("train", direction.written)
            lowercase = direction.teachers[0].config.tokenizer.lowercase
            yield Stage(
                f"select {name} {text.name}",
                "select",
                lambda: {"candidates": sha256(output), "references": sha256(reference)},
                lambda: [written],
                work=partial(select_nearest, output, reference, written, lowercase),
            )

    # --- the student ------------------------------------------------------------------------------

    def synthetic(self) -> list[FilePair]:
        """Return the pairs of which models write a side."""
        return [
            FilePair.model_validate(
                {
                    direction.read: text.path,
                    direction.written: self.directory.translation(
                        direction.name, text.name, direction.written
                    ),
                }
            )
            for direction in self.distillation.directions
            for text in self._texts(direction)
        ]

    def _student_stage(self) -> Stage:
        config, run = self.distillation.student, self.directory.student
        keep_reference = self.distillation.settings.keep_reference

        def inputs() -> dict[str, str]:
            splits = TRAINED_ON if keep_reference else ["val"]
            texts = [self.directory.text(split, side) for split in splits for side in SIDES]
            return {
                **describe_training(config),
                "references": str(keep_reference),
                **self.directory.sums(texts),
                # By numbers, as monolingual text may lie anywhere.
                **{
                    f"pair {number}'s {side}": sha256(getattr(pair, side))
                    for number, pair in enumerate(self.synthetic(), start=1)
                    for side in SIDES
                },
            }

        def compose() -> None:
            text = compose_student(
                config,
                self.distillation.student_file,
                self.directory,
                self.synthetic(),
                keep_reference,
            )
            write_text(self.directory.student_config, text)

        return Stage(
            "train student",
            "train",
            inputs,
            lambda: [self.directory.student_config, weights_record(run)],
            work=compose,
            command=self._train_command(self.directory.student_config, run),
            discard=partial(set_aside, run),
            config=config,
            run=run,
        )

    # --- scores -----------------------------------------------------------------------------------

    def models(self) -> dict[str, list[RunDirectory]]:
        """Return what is scored, by name: each teacher, all of them together, the student."""
        runs = [teacher.run for teacher in self.distillation.directions[0].teachers]
        found = {f"teacher-{number}": [run] for number, run in enumerate(runs, start=1)}
        if len(runs) > 1:
            found["ensemble"] = runs
        return {**found, "student": [self.directory.student]}

    def _score_stages(self) -> Iterator[Stage]:
        texts = [self.directory.text("val", side) for side in SIDES]
        for name, runs in self.models().items():
            path = self.directory.scores(name)
            yield Stage(
                f"score {name}",
                "score",
                partial(
                    lambda runs: {
                        **self.directory.sums(texts),
                        **{each.path.as_posix(): describe_model(each) for each in runs},
                    },
                    runs,
                ),
                partial(lambda path: [path], path),
                work=partial(path.parent.mkdir, exist_ok=True),
                command=evaluate_command(runs, texts[0], texts[1], self.options),
                stdout=path,
            )


def translate_command(
    runs: Sequence[RunDirectory], text: Path, output: Path, options: Sequence[str]
) -> list[str]:
    """Return the arguments that translate a file, and go on where that was stopped."""
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

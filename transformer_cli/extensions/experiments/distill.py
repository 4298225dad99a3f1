"""The jobs of a distillation: teachers translate the text that trains a student."""

import json
import os.path
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

from transformer_cli.base.errors import InputError
from transformer_cli.base.files import sha256
from transformer_cli.base.text_files import is_compressed, write_text
from transformer_cli.base.writing import whole_file
from transformer_cli.config.data_schema import FilePair
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.kinds import open_kind
from transformer_cli.extensions.corpora.prepared import open_writer
from transformer_cli.extensions.corpora.preparing import prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData, find_more, may_have_more
from transformer_cli.extensions.experiments.distill_file import (
    Back,
    Direction,
    Distillation,
    Forward,
)
from transformer_cli.extensions.experiments.job import (
    TRAINED_ON,
    Job,
    JobDirectory,
    compose_config,
    describe_model,
    describe_training,
    open_text,
    sum_texts,
    weights_record,
)
from transformer_cli.extensions.report.examples import sentence_chrf
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import rename_run
from transformer_cli.text.lines import stream_lines

TEXT_JOB, STUDENT_JOB = "text", "train student"
SIDES = ("src", "tgt")


class DistillDirectory(JobDirectory):
    """The directory with a distillation's files and the records of its jobs."""

    kind: ClassVar[str] = "distill"
    option: ClassVar[str] = "--dir"

    @property
    def student_config(self) -> Path:
        """The path of the student's config, which lists all training text of the student."""
        return self.path / "student.yaml"

    @property
    def student(self) -> RunDirectory:
        return RunDirectory(self.path / "student")

    def text(self, split: str, side: str) -> Path:
        """Return the path of a split's file; ``side`` is 'src' or 'tgt'."""
        return self.path / "text" / f"{split}.{side}"

    def translation(self, direction: Direction, text: str) -> Path:
        return self.path / direction.name / f"{text}.{direction.written}"

    def scores(self, model: str) -> Path:
        return self.path / "scores" / f"{model}.json"


@dataclass(frozen=True)
class DistillPlan:
    """Plans the jobs of a distillation: training, translating, selecting and scoring."""

    distillation: Distillation
    directory: DistillDirectory
    options: Sequence[str] = ()  # for each command that runs a model
    train_options: Sequence[str] = ()  # additional options for each training

    def jobs(self) -> Iterator[Job]:
        """Yield all jobs; each job comes after the jobs that it needs."""
        teachers = [each for each in self.distillation.teachers if each.file is not None]
        for teacher in {each.run.path: each for each in teachers}.values():
            yield Job(
                _training_name(teacher.run),
                command=self._train_command(teacher.file, teacher.run),
                config=teacher.config,
                run=teacher.run,
            )
        yield self._text_job()
        translated = []
        for direction in self.distillation.directions:
            for name, text in self._texts(direction):
                made = [*self._translation_jobs(direction, name, text)]
                translated.append(made[-1].name)
                yield from made
        yield self._student_job([TEXT_JOB, *translated])
        yield from self._score_jobs()

    def _find_needs(self, direction: Direction) -> list[str]:
        """Return the names of the jobs that write the text and train one direction's teachers."""
        trained = [each.run for each in direction.teachers if each.file is not None]
        return [TEXT_JOB, *map(_training_name, trained)]

    def _train_command(self, file: Path | None, run: RunDirectory) -> list[str]:
        return ["train", str(file), *self.train_options, "--run-dir", str(run.path), *self.options]

    def _text_job(self) -> Job:
        student = self.distillation.student
        splits = text_splits(student)
        paths = {
            (split, side): self.directory.text(split, side) for split in splits for side in SIDES
        }
        return Job(
            TEXT_JOB,
            partial(sum_texts, student, splits),
            lambda: [*paths.values()],
            prepare=partial(write_texts, student, paths),
        )

    def _texts(self, direction: Direction) -> Iterator[tuple[str, Path]]:
        """Yield the name and path of each text that the direction's teachers translate."""
        if direction.settings.corpus:
            yield "train", self.directory.text("train", direction.read)
        for number, path in enumerate(direction.settings.monolingual, start=1):
            name = path.stem if is_compressed(path) else path.name
            yield f"{number}-{Path(name).stem}", path

    def _translation_jobs(self, direction: Direction, name: str, text: Path) -> Iterator[Job]:
        """Yield the job that translates a text and, for n-best lists, one that picks candidates."""
        settings, runs = direction.settings, [teacher.run for teacher in direction.teachers]
        written = output = self.directory.translation(direction, name)
        # Monolingual text has no references to choose by.
        n_best = settings.n_best if isinstance(settings, Forward) and name == "train" else None
        if n_best is not None:
            output = written.with_name(f"{name}.nbest.jsonl")
        is_sampled = isinstance(settings, Back) and settings.sample
        search = {
            "--beam-size": settings.beam_size,
            "--n-best": n_best,
            "--sample": self.distillation.student.seed if is_sampled else None,
        }
        given = [(key, str(value)) for key, value in search.items() if value is not None]
        options = [*chain.from_iterable(given)]
        files = ["-i", str(text), "-o", str(output)]

        def inputs() -> dict[str, str]:
            models = {run.path.as_posix(): describe_model(run) for run in runs}
            return {"text": sha256(text), **models, "search": " ".join(options)}

        translate = Job(
            f"translate {direction.name} {name}",
            inputs,
            lambda: [output],
            command=["translate", *name_models(runs), *files, *options, *self.options],
            needs=self._find_needs(direction),
            prepare=partial(output.parent.mkdir, exist_ok=True),
        )
        yield translate
        if output == written:
            return
        reference = self.directory.text("train", direction.written)
        lowercase = direction.teachers[0].config.tokenizer.lowercase
        yield Job(
            f"select {direction.name} {name}",
            lambda: {"candidates": sha256(output), "references": sha256(reference)},
            lambda: [written],
            needs=(translate.name,),
            prepare=partial(select_nearest, output, reference, written, lowercase),
        )

    def _synthetic(self) -> list[FilePair]:
        """Return the pairs of files in which models have written one side."""
        pairs = []
        for direction in self.distillation.directions:
            for name, text in self._texts(direction):
                output = self.directory.translation(direction, name)
                sides = {direction.read: text, direction.written: output}
                pairs.append(FilePair.model_validate(sides))
        return pairs

    def _student_job(self, needs: Sequence[str]) -> Job:
        config, run = self.distillation.student, self.directory.student
        keep_reference = self.distillation.settings.keep_reference

        def inputs() -> dict[str, str]:
            files = {
                f"text/{split}.{side}": self.directory.text(split, side)
                for split in (TRAINED_ON if keep_reference else ["val"])
                for side in SIDES
            }
            # Use numbers, because monolingual text may be anywhere.
            for number, pair in enumerate(self._synthetic(), start=1):
                files |= {f"pair {number}'s {side}": getattr(pair, side) for side in SIDES}
            sums = {name: sha256(path) for name, path in files.items()}
            return {**describe_training(config), "references": str(keep_reference), **sums}

        return Job(
            STUDENT_JOB,
            inputs,
            lambda: [self.directory.student_config, weights_record(run)],
            command=self._train_command(self.directory.student_config, run),
            needs=needs,
            prepare=self.compose_student,
            discard=partial(rename_run, run),
            config=config,
            run=run,
        )

    def compose_student(self) -> None:
        """Write the student's config, which adds all training text to the user's config."""
        config, output = self.distillation.student, self.directory.student_config
        keeps_reference, synthetic = self.distillation.settings.keep_reference, self._synthetic()

        def text_pair(split: str) -> FilePair:
            src, tgt = (self.directory.text(split, side) for side in SIDES)
            return FilePair(src=src, tgt=tgt)

        def test_pair(split: str) -> FilePair:
            if isinstance(config.data, CorpusData):  # see ``text_splits``
                return text_pair(split)
            source = open_text(config, split)
            assert isinstance(source, ParallelFiles)
            return FilePair(src=source.src, tgt=source.tgt)

        if keeps_reference and may_have_more(config.data):
            data: dict[str, object] = {"more": [*find_more(config.data), *synthetic]}
        else:
            reference = [text_pair("train")] if keeps_reference else []
            train, *more = [*reference, *synthetic]
            kind = open_kind(config.data)
            tests = (name for name in kind.split_names()[2:] if kind.is_here(name, None))
            data = {
                "kind": "files",
                "src_lang": config.data.src_lang,
                "tgt_lang": config.data.tgt_lang,
                "train": _instead(train),
                "val": _instead(text_pair("val")),
                "test": {name: _instead(test_pair(name)) for name in tests},
                "more": more,
            }
        base = os.path.relpath(self.distillation.student_file.resolve(), output.parent.resolve())
        settings = {"base": Path(base).as_posix(), "data": data}
        write_text(output, compose_config("distill", output, settings, Path.cwd()))

    def models(self) -> dict[str, list[RunDirectory]]:
        """Return the runs of each model to score, keyed by name: teachers, ensemble and student."""
        runs = [teacher.run for teacher in self.distillation.directions[0].teachers]
        models = {f"teacher-{number}": [run] for number, run in enumerate(runs, start=1)}
        ensemble = {"ensemble": runs} if len(runs) > 1 else {}
        return {**models, **ensemble, "student": [self.directory.student]}

    def _score_jobs(self) -> Iterator[Job]:
        needs = self._find_needs(self.distillation.directions[0])
        src, ref = (self.directory.text("val", side) for side in SIDES)
        options = ["--src", str(src), "--ref", str(ref), "--json", *self.options]

        def inputs(runs: Sequence[RunDirectory]) -> dict[str, str]:
            sums = {"text/val.src": sha256(src), "text/val.tgt": sha256(ref)}
            return {**sums, **{run.path.as_posix(): describe_model(run) for run in runs}}

        for name, runs in self.models().items():
            path = self.directory.scores(name)
            yield Job(
                f"score {name}",
                partial(inputs, runs),
                partial(list[Path], [path]),
                command=["evaluate", *name_models(runs), *options],
                needs=[TEXT_JOB, STUDENT_JOB] if name == "student" else needs,
                stdout=path,
                prepare=partial(path.parent.mkdir, exist_ok=True),
            )


def _training_name(run: RunDirectory) -> str:
    return f"train {run.path.as_posix()}"


def name_models(runs: Sequence[RunDirectory]) -> list[str]:
    """Return the command-line arguments that name one run, or several runs as one ensemble."""
    first, *others = (str(run.path) for run in runs)
    return [first, *(part for other in others for part in ("--ensemble", other))]


# --- the student's text ---------------------------------------------------------------------------


def text_splits(config: Config) -> list[str]:
    """Return the splits whose text is written to the distillation's directory.

    These are train and val, or all for data of kind corpus, because only runs have prepared text.
    """
    names = open_kind(config.data).split_names()
    return names if isinstance(config.data, CorpusData) else names[:2]


def write_texts(config: Config, paths: Mapping[tuple[str, str], Path]) -> None:
    """Write splits as plain text; ``paths`` is keyed by split and side ('src' or 'tgt')."""
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        corpus = Path(directory) / "corpus"
        if isinstance(config.data, CorpusData):
            prepare_corpus(config.data, corpus)
        for split in dict.fromkeys(split for split, _ in paths):
            src, tgt = (paths[split, side] for side in SIDES)
            src.parent.mkdir(exist_ok=True)
            with open_writer(ParallelFiles(src, tgt)) as write:
                for pair in open_text(config, split, corpus).pairs():
                    write(*pair)


def _instead(pair: FilePair) -> dict[str, object]:
    """Return settings for a pair of files that replace a pair in the base config and its hash."""
    return {"src": pair.src, "tgt": pair.tgt, "sha256": None}


def select_nearest(
    candidates: Path, references: Path, output: Path, lowercase: bool = False
) -> None:
    """Write one line per n-best list from ``translate``: the candidate that ``nearest`` picks."""
    lists, lines = (sum(1 for _ in stream_lines(path)) for path in (candidates, references))
    if lists != lines:
        raise InputError(
            f"{candidates} has {lists:,} lists, but {references} has {lines:,} lines; delete "
            f"{candidates} and run again"
        )
    with whole_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        candidate_lists = map(_read_candidates, stream_lines(candidates))
        for line in nearest(candidate_lists, stream_lines(references), lowercase):
            file.write(f"{line}\n")


def nearest(
    candidates: Iterable[list[str]], references: Iterable[str], lowercase: bool = False
) -> Iterator[str]:
    """For each line, yield the candidate with the highest chrF against the reference.

    On a tie, this is the first, most probable candidate. ``lowercase`` means to ignore case.
    """
    for texts, reference in zip(candidates, references, strict=True):
        different = [*dict.fromkeys(texts)]  # a text may occur twice, with different segmentations
        if len(different) == 1:
            yield different[0]
            continue
        scores = sentence_chrf(different, [reference] * len(different), lowercase)
        yield different[scores.index(max(scores))]


def _read_candidates(line: str) -> list[str]:
    try:
        return [str(each["text"]) for each in json.loads(line)["translations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not an n-best list from translate: {line[:60]}") from error

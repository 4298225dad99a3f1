"""Read a distillation's YAML file, and check the files that it names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError
from transformer_cli.config import yaml
from transformer_cli.config.choices import LARGEST_BEAM
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import FilePath, Section
from transformer_cli.config.setting_tree import Keys, Node, find_node, find_place, setting_error
from transformer_cli.config.validation import validate_as
from transformer_cli.data.kinds import check_has_text
from transformer_cli.extensions.corpora.settings import (
    CorpusData,
    SourceConfig,
    find_more,
    find_replay,
)
from transformer_cli.extensions.experiments.job import weights_record
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import describe_refused

Teachers = Annotated[list[str], Field(min_length=1)]


def _check_installed(extension: str, key: str) -> None:
    """Raise ValueError if ``extension``, which the setting ``key`` needs, is not installed."""
    if not registry.is_installed(extension):
        raise ValueError(f"{key}: {registry.describe_missing('extension', extension)}")


class Translated(Section):
    """Settings for the text that teachers translate for the student, in either direction."""

    corpus: bool = Field(True, description="whether to translate the student's training text")
    monolingual: list[FilePath] = Field(
        default=[], description="more text to translate, one sentence per line; may be compressed"
    )
    beam_size: Annotated[int, Field(gt=0, le=LARGEST_BEAM)] | None = Field(
        None, description="beam size; null: the first teacher's"
    )

    @model_validator(mode="after")
    def _there_is_text(self) -> Self:
        if not self.corpus and not self.monolingual:
            raise ValueError("corpus: false, and no monolingual text: nothing to translate")
        return self


class Forward(Translated):
    """Settings for text in the source language that teachers translate for the student."""

    n_best: Annotated[int, Field(ge=2, le=LARGEST_BEAM)] | None = Field(
        None, description="forward: candidates for each line, with keep: nearest"
    )
    keep: Literal["best", "nearest"] = Field(
        "best",
        description="forward: best keeps the most likely translation, nearest the candidate with "
        "the highest chrF against the reference",
    )

    @model_validator(mode="after")
    def _nearest_has_candidates(self) -> Self:
        if (self.keep == "nearest") != (self.n_best is not None):
            raise ValueError("n_best: needs keep: nearest, which needs n_best; set both or neither")
        if self.n_best is None:
            return self
        _check_installed("n_best", "n_best")
        if not self.corpus:
            raise ValueError(
                "n_best: needs the corpus's references, but corpus is false; leave out n_best and "
                "keep"
            )
        if self.beam_size is not None and self.beam_size < self.n_best:
            raise ValueError(
                f"n_best: a beam of {self.beam_size} cannot hold the {self.n_best} best; raise "
                "beam_size"
            )
        return self


class Back(Translated):
    """Settings for back-translation: models of the other direction write source text."""

    teachers: Teachers = Field(
        description="back: models that translate from the target to the source language"
    )
    sample: bool = Field(
        False,
        description="back: whether to sample translations, with the student's seed, instead of "
        "searching",
    )

    @model_validator(mode="after")
    def _samples_without_a_beam(self) -> Self:
        if self.sample:
            _check_installed("sampling", "sample")
        if self.sample and self.beam_size is not None:
            raise ValueError("beam_size: sample uses no beam; leave one of them out")
        return self


class DistillSettings(Section):
    """The settings of a distillation: teachers, the text that they translate, and the student."""

    teachers: Teachers = Field(
        description="configs (YAML), trained first if necessary, or run directories; "
        "several translate as an ensemble"
    )
    forward: Forward = Field(Forward(), description="text that the teachers translate")
    back: Back | None = Field(None, description="back-translation; null: none")
    student: str = Field(description="config of the student")
    keep_reference: bool = Field(
        True, description="whether the student also trains on the original pairs"
    )


@dataclass(frozen=True)
class Teacher:
    """A model whose translations the student learns from."""

    run: RunDirectory
    file: Path | None  # the run's config; None: it is already trained

    @cached_property
    def config(self) -> Config:
        return self.run.load_config() if self.file is None else yaml.load_config(self.file)


@dataclass(frozen=True)
class Direction:
    """The teachers of one translation direction, and the settings of the text they translate."""

    name: str  # 'forward' or 'back'
    teachers: list[Teacher]
    settings: Forward | Back

    @property
    def read(self) -> str:
        """The side of the student's text that the teachers translate: 'src' or 'tgt'."""
        return "src" if self.name == "forward" else "tgt"

    @property
    def written(self) -> str:
        """The side of the student's text that the teachers write: 'src' or 'tgt'."""
        return "tgt" if self.name == "forward" else "src"


@dataclass(frozen=True)
class Distillation:
    """A distillation's YAML file, after all checks: its settings, the student and teachers."""

    settings: DistillSettings
    student_file: Path
    student: Config
    directions: list[Direction]  # forward, and back if there is back-translation

    @property
    def teachers(self) -> list[Teacher]:
        return [teacher for direction in self.directions for teacher in direction.teachers]


def load_distillation(path: Path) -> Distillation:
    """Read and check a distillation's file and the configs that it names."""
    root = yaml.read_mapping(path, "teachers and student")
    if isinstance(root.value, dict) and {"data", "tokenizer"} & root.value.keys():
        problem = f"write a file with student: {path.name}, and teachers: a list"
        raise setting_error(root.place, (), f"is a config; {problem}")
    settings = validate_as(DistillSettings, root)
    student_file = _find_beside(path, root, ("student",))
    student_root = yaml.read_settings(student_file)
    student = yaml.check_settings(student_root)
    check_has_text(student.data, student_file)
    is_translated = settings.forward.corpus or (settings.back is not None and settings.back.corpus)
    _check_sources(student_root, student.data, is_translated)
    languages = [student.data.src_lang, student.data.tgt_lang]
    files: dict[Path, Path] = {}
    forward = _find_teachers(path, root, ("teachers",), settings.teachers, languages, files)
    directions = [Direction("forward", forward, settings.forward)]
    if settings.back is not None:
        keys, names = ("back", "teachers"), settings.back.teachers
        back = _find_teachers(path, root, keys, names, languages[::-1], files)
        directions.append(Direction("back", back, settings.back))
    for direction in directions:
        for number, text in enumerate(direction.settings.monolingual):
            if not text.is_file():
                key: Keys = (direction.name, "monolingual", number)
                raise _setting_error(root, key, f"there is no file {text}")
    return Distillation(settings, student_file, student, directions)


def _find_beside(path: Path, root: Node, keys: Keys) -> Path:
    node = find_node(root, keys)
    assert node is not None
    return yaml.find_beside(path, node, keys)


def _setting_error(root: Node, keys: Keys, problem: str) -> ConfigError:
    return setting_error(find_place(root, keys), keys, problem)


def _check_sources(root: Node, data: DataConfig, is_translated: bool) -> None:
    """Raise ConfigError for replay, tags and weights of sources, which plain text would lose."""
    if find_replay(data) is not None:
        problem = "a student's text is written again, without replay; leave it out"
        raise _setting_error(root, ("data", "replay"), problem)
    instead = "leave it out"
    sources: dict[Keys, SourceConfig | None] = {}  # their text becomes plain files
    if isinstance(data, CorpusData):
        instead += (
            ", or write the text with 'transformer-cli clean CONFIG -o DIR' and name its files "
            "with kind files"
        )
        sources = {("sources", number): source for number, source in enumerate(data.sources)}
        sources[("val",)] = data.val
        sources |= {("test", name): source for name, source in data.test.items()}
    elif is_translated:
        sources = {("more", number): source for number, source in enumerate(find_more(data))}
    for keys, source in sources.items():
        for key in ("tag", "weight"):
            if getattr(source, key, None) not in (None, 1.0):
                problem = f"a student's text is read as plain lines, which have no {key}; {instead}"
                raise _setting_error(root, ("data", *keys, key), problem)


def _find_teachers(
    path: Path,
    root: Node,
    keys: Keys,
    names: Sequence[str],
    languages: Sequence[str],
    files: dict[Path, Path],
) -> list[Teacher]:
    """Return a direction's teachers, and add their config files to ``files``, keyed by run path."""
    teachers: list[Teacher] = []
    for number, name in enumerate(names):
        # Not Path.expanduser, which raises an error if the user does not exist.
        teacher = Teacher(RunDirectory(Path(os.path.expanduser(name))), None)  # noqa: PTH111
        if name.endswith((".yaml", ".yml")):
            file = _find_beside(path, root, (*keys, number))
            teacher = Teacher(RunDirectory(Path("runs") / file.stem), file)
        if problem := _find_problem(teacher, teachers, languages, files):
            raise _setting_error(root, (*keys, number), f"{name} {problem}")
        teachers.append(teacher)
    return teachers


def _find_problem(
    teacher: Teacher, others: Sequence[Teacher], languages: Sequence[str], files: dict[Path, Path]
) -> str | None:
    """Return why a teacher does not suit the student or the others in its ensemble, or None."""
    config, run = teacher.config, teacher.run.path
    if teacher.file is None:
        weights_record(teacher.run)  # raises an error if it is not trained yet
    elif (file := files.setdefault(run, teacher.file)).resolve() != teacher.file.resolve():
        return f"has the same run {run.as_posix()} as {file}; rename one of the files"
    elif teacher.run.config.is_file() and (refused := describe_refused(teacher.run, config)):
        return (
            f"has the run {run.as_posix()}, which is {refused}; name {run.as_posix()} instead of "
            "the file to use it as it is, or rename the file"
        )
    if [config.data.src_lang, config.data.tgt_lang] != languages:
        return (
            f"translates {config.data.src_lang} to {config.data.tgt_lang}, but this student needs "
            f"{' to '.join(languages)}; name another model"
        )
    if others and not registry.is_installed("ensembles"):
        return f"is one of several: {registry.describe_missing('extension', 'ensembles')}"
    for other in others:
        models = config.model, other.config.model
        if len({(model.positions, model.max_positions) for model in models}) > 1:
            return (
                "has another model.positions or model.max_positions than "
                f"{other.run.path.as_posix()}, but models of one ensemble need the same; leave one "
                "of them out"
            )
    return None

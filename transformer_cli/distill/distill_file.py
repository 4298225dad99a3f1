"""Read a distillation's YAML file, and check what it names before anything is trained."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformer_cli.config.data_schema import (
    CopyData,
    CorpusData,
    DataConfig,
    ImportedData,
    SourceConfig,
    find_replay,
)
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Keys, Node, find_place, setting_error
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import (
    check_settings,
    find_beside,
    load_config,
    read_mapping,
    read_settings,
)
from transformer_cli.distill.artifacts import weights_record
from transformer_cli.distill.settings import Back, DistillSettings, Forward
from transformer_cli.runs.directory import RunDirectory

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Teacher:
    """A model that translates."""

    run: RunDirectory
    file: Path | None
    """The configuration that the run is trained with; None: it is there already."""

    @cached_property
    def config(self) -> Config:
        """Its settings."""
        return self.run.load_config() if self.file is None else load_config(self.file)


@dataclass(frozen=True)
class Direction:
    """Who translates what, and in which direction."""

    name: str
    """'forward' or 'back'."""
    teachers: list[Teacher]
    settings: Forward | Back

    @property
    def read(self) -> str:
        """The student's side that is translated: 'src' or 'tgt'."""
        return "src" if self.name == "forward" else "tgt"

    @property
    def written(self) -> str:
        """The student's side that is written."""
        return "tgt" if self.name == "forward" else "src"


@dataclass(frozen=True)
class Distillation:
    """A distillation's file, checked."""

    settings: DistillSettings
    student_file: Path
    student: Config
    directions: list[Direction]
    """Forward, and back if there is back-translation."""

    @property
    def teachers(self) -> list[Teacher]:
        """The teachers of all directions."""
        return [teacher for direction in self.directions for teacher in direction.teachers]


def load_distillation(path: Path) -> Distillation:
    """Read a distillation's file, and the configurations that it names.

    Raises:
        ConfigError: a file cannot be read, is not YAML, or a key or value does not fit. The message
            is one line with the file and line.
        RunError, CheckpointError: a teacher is no run, or is not trained yet.
    """
    root = read_mapping(path, "teachers and student")
    if isinstance(root.value, dict) and {"data", "tokenizer"} & root.value.keys():
        raise setting_error(
            root.place,
            (),
            f"is a configuration; write a file with student: {path.name}, and teachers: a list",
        )
    settings = validate_as(DistillSettings, root)
    student_file = find_beside(path, root, ("student",), "this file's")
    student_root = read_settings(student_file)
    student = check_settings(student_root)
    texts = [settings.forward, *([] if settings.back is None else [settings.back])]
    _check_sources(student_root, student.data, any(each.corpus for each in texts))
    languages = student.data.src_lang, student.data.tgt_lang
    forward = _find_teachers(path, root, ("teachers",), settings.teachers, languages)
    directions = [Direction("forward", forward, settings.forward)]
    if settings.back is not None:
        keys, names = ("back", "teachers"), settings.back.teachers
        back = _find_teachers(path, root, keys, names, languages[::-1])
        directions.append(Direction("back", back, settings.back))
    _check_paths(root, directions)
    return Distillation(settings, student_file, student, directions)


def _check_sources(root: Node, data: DataConfig, is_translated: bool) -> None:
    """Raise ConfigError if sources have tags or weights, which plain text loses, or are replayed.

    Args:
        root: the student's settings.
        data: what they say of the text.
        is_translated: whether the training text is.
    """
    if find_replay(data) is not None:
        replay: Keys = ("data", "replay")
        problem = "a student's text is written anew, and nothing is replayed; leave it out"
        raise setting_error(find_place(root, replay), replay, problem)
    for keys, source in _read_sources(data, is_translated):
        for key, value in (("tag", source.tag), ("weight", source.weight)):
            if value in (None, 1.0):
                continue
            instead = "leave it out"
            if isinstance(data, CorpusData):
                instead += (
                    ", or write the text with 'transformer-cli clean CONFIG -o DIR' and name its "
                    "files with kind files"
                )
            each = (*keys, key)
            problem = f"a student's text is read as plain lines, which have no {key}; {instead}"
            raise setting_error(find_place(root, each), each, problem)


def _read_sources(data: DataConfig, is_translated: bool) -> Iterator[tuple[Keys, SourceConfig]]:
    """Yield the sources whose text is written to plain files."""
    match data:
        case CopyData() | ImportedData():
            return
        case CorpusData():
            for number, source in enumerate(data.sources):
                yield ("data", "sources", number), source
            if data.val is not None:
                yield ("data", "val"), data.val
            for name, source in data.test.items():
                yield ("data", "test", name), source
        case _ if is_translated:
            for number, source in enumerate(data.more):
                yield ("data", "more", number), source


def _find_teachers(
    path: Path, root: Node, keys: Keys, names: list[str], languages: tuple[str, ...]
) -> list[Teacher]:
    found: list[Teacher] = []
    for number, name in enumerate(names):
        each = (*keys, number)
        if name.endswith(_YAML):
            file = find_beside(path, root, each, "this file's")
            teacher = Teacher(RunDirectory(Path("runs") / file.stem), file)
        else:
            teacher = Teacher(RunDirectory(Path(name).expanduser()), None)
        if problem := _find_problem(teacher, found, languages):
            raise setting_error(find_place(root, each), each, f"{name} {problem}")
        found.append(teacher)
    return found


def _find_problem(
    teacher: Teacher, others: list[Teacher], languages: tuple[str, ...]
) -> str | None:
    """Return why a teacher does not fit the student, or the others of its ensemble."""
    config = teacher.config
    if teacher.file is None:
        weights_record(teacher.run)  # or it is not trained yet
    if (config.data.src_lang, config.data.tgt_lang) != languages:
        return (
            f"translates {config.data.src_lang} to {config.data.tgt_lang}, and has to translate "
            f"{' to '.join(languages)} for this student; name another one"
        )
    for other in others:
        models = config.model, other.config.model
        if len({(model.positions, model.max_positions) for model in models}) > 1:
            return (
                "has other model.positions or model.max_positions than "
                f"{other.run.path.as_posix()}, and models of one ensemble need the same; leave one "
                "of them out"
            )
    return None


def _check_paths(root: Node, directions: list[Direction]) -> None:
    """Raise ConfigError if two teachers have one run, or monolingual text is missing."""
    files: dict[Path, Path] = {}
    for direction in directions:
        keys: Keys = ("teachers",) if direction.name == "forward" else ("back", "teachers")
        for number, teacher in enumerate(direction.teachers):
            file = teacher.file
            if file is None:
                continue
            other = files.setdefault(teacher.run.path, file)
            if other.resolve() != file.resolve():
                problem = (
                    f"{file} has the run {teacher.run.path.as_posix()}, as {other} has; rename one "
                    "of the files"
                )
                each = (*keys, number)
                raise setting_error(find_place(root, each), each, problem)
        for number, path in enumerate(direction.settings.monolingual):
            if not path.is_file():
                each = (direction.name, "monolingual", number)
                raise setting_error(find_place(root, each), each, f"there is no file {path}")

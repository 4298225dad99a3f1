"""A distillation file: its content, and each mistake as one line with its place."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import CheckpointError, ConfigError, RunError
from transformer_cli.config.data_schema import FilePair, FilesData
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.corpora import preparing
from transformer_cli.extensions.corpora.prepared import CorpusRecord
from transformer_cli.extensions.corpora.preparing import write_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.experiments.distill import (
    SIDES,
    DistillDirectory,
    DistillPlan,
    name_models,
    text_splits,
    write_texts,
)
from transformer_cli.extensions.experiments.distill_file import (
    Direction,
    Distillation,
    DistillSettings,
    load_distillation,
)
from transformer_cli.extensions.experiments.job import describe_training
from transformer_cli.runs.directory import RunDirectory, write_mark
from transformer_cli.runs.initialize import rename_run

CONFIG = """\
data:
  kind: files
  src_lang: {src}
  tgt_lang: {tgt}
  train: {{src: a, tgt: b}}
  val: {{src: c, tgt: d}}
tokenizer: {{kind: words}}
"""
CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "de_en.yaml").write_text(CONFIG.format(src="de", tgt="en"))
    (tmp_path / "en_de.yaml").write_text(CONFIG.format(src="en", tgt="de"))
    (tmp_path / "sub").mkdir()
    return tmp_path


def _refusal(directory: Path, text: str) -> str:
    path = directory / "sub" / "file.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_distillation(path)
    return str(caught.value).removeprefix(path.as_posix())


def test_configs_are_searched_next_to_the_file(directory: Path) -> None:
    path = directory / "sub" / "file.yaml"
    path.write_text(
        "teachers: [../de_en.yaml]\nback: {teachers: [../en_de.yaml]}\nstudent: ../de_en.yaml\n"
    )
    distillation = load_distillation(path)
    assert distillation.student_file == directory / "de_en.yaml"
    runs = [teacher.run.path.as_posix() for teacher in distillation.teachers]
    assert runs == ["runs/de_en", "runs/en_de"]
    assert [each.read for each in distillation.directions] == ["src", "tgt"]


def test_the_student_depends_only_on_its_inputs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = directory / "file.yaml"
    path.write_text("teachers: [de_en.yaml]\nstudent: de_en.yaml\nkeep_reference: false\n")
    monkeypatch.chdir(directory)
    out = DistillDirectory(Path("out"))
    for text in ("text/train.src", "text/train.tgt", "text/val.src", "text/val.tgt"):
        (out.path / text).parent.mkdir(parents=True, exist_ok=True)
        (out.path / text).write_text(text)
    (out.path / "forward").mkdir()
    (out.path / "forward" / "train.tgt").write_text("")
    plan = DistillPlan(load_distillation(path), out)
    (student,) = (job for job in plan.jobs() if job.name == "train student")
    before = student.inputs()
    (out.path / "text" / "train.tgt").write_text("other")
    assert student.inputs() == before
    (out.path / "text" / "val.src").write_text("other")
    assert student.inputs() != before


def test_the_student_has_its_files_and_no_checksums_of_fetched_files(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = f"sha256: [{'a' * 64}, {'b' * 64}]"
    web = f"{{src: 'https://host/a', tgt: 'https://host/b', {sums}}}"
    text = CONFIG.format(src="de", tgt="en").replace("{src: a, tgt: b}", web)
    (directory / "de_en.yaml").write_text(text)
    config = load_config(directory / "de_en.yaml")
    monkeypatch.chdir(directory)
    settings = DistillSettings(teachers=["a"], student="de_en.yaml", keep_reference=False)
    forward = Direction("forward", [], settings.forward)
    distillation = Distillation(settings, directory / "de_en.yaml", config, [forward])
    DistillPlan(distillation, DistillDirectory(directory)).compose_student()
    student = load_config(directory / "student.yaml").data
    assert isinstance(student, FilesData)
    assert student.train == FilePair(src=Path("text/train.src"), tgt=Path("forward/train.tgt"))


def _describe(directory: Path, text: str) -> dict[str, str]:
    (directory / "config.yaml").write_text(text)
    return describe_training(load_config(directory / "config.yaml"))


def test_settings_are_the_same_wherever_the_project_lies(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CONFIG.format(src="de", tgt="en")
    monkeypatch.chdir(directory)
    here = _describe(directory, text)
    monkeypatch.chdir(directory / "sub")
    assert _describe(directory, text) == here
    # As if the writing version had another setting.
    assert _describe(directory, f"{text}training: {{accumulate: 1}}\n") == here
    assert _describe(directory, f"{text}training: {{accumulate: 2}}\n") != here


def test_sources_are_the_same_wherever_they_lie(directory: Path) -> None:
    def describe(source: str) -> dict[str, str]:
        own = f"{{tsv: {source}, src_column: 1, tgt_column: 2}}"
        return _describe(
            directory,
            "data: {kind: corpus, src_lang: de, tgt_lang: en, split: {val: 2}, "
            f"sources: [{own}], replay: {{sources: [{own}], share: 0.1}}}}\n"
            "tokenizer: {kind: words}\n",
        )

    (directory / "sub" / "x.tsv").write_text("a\tb\n")
    plain = describe("here/x.tsv")
    assert describe("there/x.tsv") == plain
    assert describe("there/x.tsv, weight: 2") != plain


def test_weights_and_tags_of_added_text_count_too(directory: Path) -> None:
    def describe(more: str) -> dict[str, str]:
        text = CONFIG.format(src="de", tgt="en")
        added = f"\n  more: [{{src: c, tgt: d{more}}}]"
        return _describe(directory, text.replace("\n  val:", f"{added}\n  val:"))

    plain = describe("")
    assert describe(", weight: 1") == plain
    assert describe(", weight: 2") != plain
    assert describe(", tag: x") != plain


def test_an_earlier_run_is_set_aside_under_a_free_name(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "student")
    assert rename_run(run) is None
    name = f"student.{date.today()}"
    (tmp_path / name).symlink_to("nowhere")
    for number in (2, 3):
        _write_run(run, str(number))
        assert rename_run(run) == tmp_path / f"{name}-{number}"
        assert (tmp_path / f"{name}-{number}" / "thesis.tex").read_text() == str(number)
    assert not [*run.path.iterdir()]


def _write_run(run: RunDirectory, text: str) -> None:
    (run.checkpoints / "step-1").mkdir(parents=True)
    write_mark(run.path)
    (run.path / "thesis.tex").write_text(text)


def test_two_files_with_one_run_are_refused(directory: Path) -> None:
    (directory / "sub" / "de_en.yaml").write_text(CONFIG.format(src="de", tgt="en"))
    text = "teachers: [../de_en.yaml, ../de_en.yaml, de_en.yaml]\nstudent: ../de_en.yaml\n"
    assert "has the same run runs/de_en as " in _refusal(directory, text)


def test_errors_that_would_come_after_hours_are_reported_at_once(directory: Path) -> None:
    (directory / "imported.yaml").write_text(
        "data: {kind: imported, src_lang: de, tgt_lang: en}\ntokenizer: {kind: words}\n"
    )
    no_text = "teachers: [../de_en.yaml]\nstudent: ../imported.yaml\n"
    assert "data.kind imported has no text to train on" in _refusal(directory, no_text)
    missing = "teachers: [../de_en.yaml]\nstudent: ../de_en.yaml\nback:\n"
    missing += "  teachers: [../en_de.yaml]\n  monolingual: [nowhere.txt]\n"
    assert _refusal(directory, missing).startswith(":5: back.monolingual[0]: there is no file ")
    learned = CONFIG.format(src="de", tgt="en") + "model: {max_positions: 600}\n"
    (directory / "other.yaml").write_text(learned)
    unlike = "teachers: [../de_en.yaml, ../other.yaml]\nstudent: ../de_en.yaml\n"
    expected = ":1: teachers[1]: ../other.yaml has another model.positions or model.max_positions"
    assert _refusal(directory, unlike).startswith(expected)
    untrained = directory / "untrained"
    untrained.mkdir()
    (untrained / "config.yaml").write_text(CONFIG.format(src="de", tgt="en"))
    path = directory / "file.yaml"
    path.write_text(f"teachers: ['{untrained}']\nstudent: de_en.yaml\n")
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        load_distillation(path)


CORPUS = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources:
    - {src: a, tgt: b}
    - {tsv: c, src_column: 1, tgt_column: 2, weight: 2.5}
  split: {val: 1}
tokenizer: {kind: words}
"""
MARKED = {
    "data.sources[1].weight": (7, CORPUS),
    "data.sources[1].tag": (7, CORPUS.replace("weight: 2.5", "tag: web")),
    "data.val.tag": (
        8,
        CORPUS.replace(", weight: 2.5", "").replace(
            "split: {", "val: {src: c, tgt: d, tag: web} #"
        ),
    ),
    "data.more[0].tag": (5, CONFIG.format(src="de", tgt="en")),
}


@pytest.mark.parametrize("key", MARKED)
def test_tags_and_weights_that_would_be_lost_are_refused(directory: Path, key: str) -> None:
    line, text = MARKED[key]
    more = "  more: [{src: a, tgt: b, tag: web}]\n"
    (directory / "marked.yaml").write_text(text.replace("  train:", f"{more}  train:"))
    file = "teachers: [../de_en.yaml]\nstudent: ../marked.yaml\n"
    refusal = _refusal(directory, file).rpartition("/")[2]
    assert refusal.startswith(f"marked.yaml:{line}: {key}: a student's text is read as plain lines")
    assert ("transformer-cli clean CONFIG -o DIR" in refusal) == ("more" not in key)


@pytest.mark.parametrize(
    ("extension", "settings", "key"),
    [
        ("n_best", "forward: {n_best: 2, keep: nearest}\n", "forward.n_best"),
        ("sampling", "back: {teachers: [../en_de.yaml], sample: true}\n", "back.sample"),
    ],
)
def test_a_missing_extension_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch, extension: str, settings: str, key: str
) -> None:
    monkeypatch.setattr(registry, "is_installed", lambda name: name != extension)
    refusal = _refusal(directory, f"teachers: [../de_en.yaml]\nstudent: ../de_en.yaml\n{settings}")
    missing = registry.describe_missing("extension", extension)
    assert refusal == f":3: {key}: {missing}"


def test_a_student_replays_nothing(directory: Path) -> None:
    replay = "  replay: {share: 0.5, sources: [{src: a, tgt: b}]}\n  train:"
    text = CONFIG.format(src="de", tgt="en").replace("  train:", replay)
    (directory / "replayed.yaml").write_text(text)
    refusal = _refusal(directory, "teachers: [../de_en.yaml]\nstudent: ../replayed.yaml\n")
    assert refusal.rpartition("/")[2].startswith("replayed.yaml:5: data.replay: a student's text")


def test_tags_of_text_that_is_not_translated_stay(directory: Path) -> None:
    text = CONFIG.format(src="de", tgt="en")
    more = "  more: [{src: a, tgt: b, tag: web}]\n"
    (directory / "marked.yaml").write_text(text.replace("  train:", f"{more}  train:"))
    (directory / "mono").touch()
    path = directory / "file.yaml"
    file = f"forward: {{corpus: false, monolingual: ['{directory}/mono']}}\n"
    path.write_text(f"teachers: [de_en.yaml]\nstudent: marked.yaml\n{file}")
    assert load_distillation(path).student.data.src_lang == "de"


MISTAKES = {
    "student: ../de_en.yaml\n": ": teachers: missing (configs",
    "teachers: []\nstudent: ../de_en.yaml\n": ":1: teachers: expected a list of at least 1",
    "teachers: [../de_en.yaml]\nstudnet: x\nstudent: ../de_en.yaml\n": (
        ":2: studnet: unknown key; did you mean 'student'?"
    ),
    "teachers: [../de_en.yaml]\nstudent: de_en.yaml\n": ":2: student: there is no file ",
    "teachers:\n- ../de_en.yaml\n- ../en_de.yaml\nstudent: ../de_en.yaml\n": (
        ":3: teachers[1]: ../en_de.yaml translates en to de, but this student needs de to en"
    ),
    "teachers: [../de_en.yaml]\nforward: {n_best: 3}\nstudent: ../de_en.yaml\n": (
        ":2: forward.n_best: needs keep: nearest"
    ),
    "teachers: [../de_en.yaml]\nforward: {n_best: 5, keep: nearest, beam_size: 3}\n": (
        ":2: forward.n_best: a beam of 3 cannot hold the 5 best; raise beam_size"
    ),
    "teachers: [../de_en.yaml]\nforward:\n  corpus: false\n  monolingual: [a]\n  n_best: 5\n"
    "  keep: nearest\n": ":5: forward.n_best: needs the corpus's references",
    "teachers: [../de_en.yaml]\nforward: {corpus: false}\nstudent: ../de_en.yaml\n": (
        ":2: forward.corpus: false, and no monolingual text: nothing to translate"
    ),
    CONFIG.format(src="de", tgt="en"): ": is a config; write a file with student: ",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_reported_with_its_place(directory: Path, text: str) -> None:
    assert _refusal(directory, text).startswith(MISTAKES[text])


def test_a_teacher_that_is_not_a_config_must_be_a_run(directory: Path) -> None:
    path = directory / "file.yaml"
    path.write_text("teachers: [runs/nowhere]\nstudent: de_en.yaml\n")
    with pytest.raises(RunError, match="runs/nowhere: not a run directory"):
        load_distillation(path)


@pytest.mark.parametrize("path", sorted((CONFIGS / "distill").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_files_say_what_they_are_for(path: Path) -> None:
    assert load_distillation(path).student_file.parent == CONFIGS
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert comments[-1].startswith(f"#   transformer-cli distill configs/distill/{path.name}")


def test_several_teachers_translate_as_an_ensemble() -> None:
    runs = [RunDirectory(Path(name)) for name in ("a", "b", "c")]
    assert name_models(runs) == ["a", "--ensemble", "b", "--ensemble", "c"]
    assert name_models(runs[:1]) == ["a"]


def test_a_corpus_is_prepared_once_for_all_splits(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "text.tsv").write_text("".join(f"w {n}\tv {n}\n" for n in range(20)))
    source = f"{{tsv: {directory / 'text.tsv'}, src_column: 1, tgt_column: 2}}"
    text = f"data: {{kind: corpus, src_lang: de, tgt_lang: en, sources: [{source}], "
    (directory / "corpus.yaml").write_text(
        f"{text}split: {{val: 2, test: 3}}}}\ntokenizer: {{kind: words}}\n"
    )
    prepared: list[Path] = []

    def count(data: CorpusData, made: Path, *args: Any) -> CorpusRecord:
        prepared.append(made)
        return write_corpus(data, made, *args)

    monkeypatch.setattr(preparing, "write_corpus", count)
    config = load_config(directory / "corpus.yaml")
    paths = {
        (split, side): directory / f"text/{split}.{side}"
        for split in text_splits(config)
        for side in SIDES
    }
    write_texts(config, paths)
    counts = {place: len(path.read_text().splitlines()) for place, path in paths.items()}
    of_splits = {"train": 15, "val": 2, "test": 3}
    assert counts == {(split, side): of_splits[split] for split, side in paths}
    assert len(prepared) == 1

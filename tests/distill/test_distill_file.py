"""A distillation's file: what it says, and each mistake as one line with its place."""

from pathlib import Path

import pytest

from transformer_cli.distill.distill_file import load_distillation
from transformer_cli.distill.plan import evaluate_command, translate_command
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.runs.directory import RunDirectory

CONFIG = """\
data:
  kind: files
  src_lang: {src}
  tgt_lang: {tgt}
  train: {{src: a, tgt: b}}
  val: {{src: c, tgt: d}}
tokenizer: {{kind: words}}
"""
CONFIGS = Path(__file__).parents[2] / "configs"


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


def test_configurations_are_looked_for_beside_the_file(directory: Path) -> None:
    path = directory / "sub" / "file.yaml"
    path.write_text(
        "teachers: [../de_en.yaml]\nback: {teachers: [../en_de.yaml]}\nstudent: ../de_en.yaml\n"
    )
    distillation = load_distillation(path)
    assert distillation.student_file == directory / "de_en.yaml"
    runs = [teacher.run.path.as_posix() for teacher in distillation.teachers]
    assert runs == ["runs/de_en", "runs/en_de"]
    assert [each.read for each in distillation.directions] == ["src", "tgt"]


MISTAKES = {
    "student: ../de_en.yaml\n": ": teachers: missing (configurations",
    "teachers: []\nstudent: ../de_en.yaml\n": ":1: teachers: expected a list of at least 1",
    "teachers: [../de_en.yaml]\nstudnet: x\nstudent: ../de_en.yaml\n": (
        ":2: studnet: unknown key; did you mean 'student'?"
    ),
    "teachers: [../de_en.yaml]\nstudent: de_en.yaml\n": ":2: student: there is no file ",
    "teachers:\n- ../de_en.yaml\n- ../en_de.yaml\nstudent: ../de_en.yaml\n": (
        ":3: teachers[1]: ../en_de.yaml translates en to de, and has to translate de to en"
    ),
    "teachers: [../de_en.yaml]\nforward: {n_best: 3}\nstudent: ../de_en.yaml\n": (
        ":2: forward.n_best: goes with keep: nearest"
    ),
    "teachers: [../de_en.yaml]\nforward: {corpus: false}\nstudent: ../de_en.yaml\n": (
        ":2: forward.corpus: false, and no monolingual text: nothing to translate"
    ),
    CONFIG.format(src="de", tgt="en"): ": is a configuration; a distillation names one with",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_place(directory: Path, text: str) -> None:
    assert _refusal(directory, text).startswith(MISTAKES[text])


def test_a_teacher_that_is_no_configuration_has_to_be_a_run(directory: Path) -> None:
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
    command = translate_command(runs, Path("in"), Path("out"), ["--beam-size", "5"])
    assert command == [
        *("translate", "a", "--ensemble", "b", "--ensemble", "c"),
        *("-i", "in", "-o", "out", "--resume", "--beam-size", "5"),
    ]
    command = evaluate_command(runs[:1], Path("src"), Path("ref"), [])
    assert command == ["evaluate", "a", "--src", "src", "--ref", "ref", "--json"]

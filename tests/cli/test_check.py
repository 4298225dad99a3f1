import json
import os
import shutil
from pathlib import Path

import pytest

from cli.conftest import Training
from cli.process import assert_refused, run, run_anew

ROOT = Path(__file__).parents[2]

FILES = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: val.de, tgt: val.en}
tokenizer: {kind: words, min_freq: 1}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A corpus of the user's own, with a config that names it."""
    for split in ("train", "val"):
        for language in ("de", "en"):
            name = f"{split}.{language}"
            shutil.copy(ROOT / "data" / "toy" / name, tmp_path / name)
    config = tmp_path / "my.yaml"
    config.write_text(FILES)
    return config


def test_the_toy_corpus_has_no_faults() -> None:
    finished = run_anew("check", "configs/toy.yaml", cwd=ROOT)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("configs/toy.yaml: lengths in ")
    assert finished.out.endswith("\n\nno warnings, no notes\n")
    assert [line.split()[:2] for line in finished.out.splitlines()[2:6]] == [
        ["split", "pairs"],
        ["train", "4,000"],
        ["val", "200"],
        ["test", "200"],
    ]


@pytest.mark.multi30k
def test_what_is_wrong_with_multi30k_is_noted_and_no_warning(tmp_path: Path) -> None:
    corpus = Path(os.environ.get("MULTI30K_DIR", ROOT / "data" / "multi30k"))
    config = tmp_path / "my.yaml"
    config.write_text(FILES.replace(".de", ".de.gz").replace(".en", ".en.gz"))
    # Named one by one, so that no other split is downloaded.
    named = [
        f"--set=data.{split}.{side}={corpus}/{split}.{language}.gz"
        for split in ("train", "val")
        for side, language in (("src", "de"), ("tgt", "en"))
    ]
    finished = run("check", config, *named, cwd=tmp_path)
    assert (finished.code, finished.err) == (0, "")
    assert "\nnote: train: pairs that occur earlier [repeated]: 3 (0.01%): " in finished.out
    # '@@' is all that the German side has of them.
    assert "/train.de.gz:16510; " in finished.out
    assert "\nno warnings, " in finished.out


def test_warnings_name_the_lines_and_are_the_exit_code(files: Path) -> None:
    src = files.parent / "val.de"
    lines = src.read_text().splitlines()
    lines[6] = lines[6].replace("e", "е")  # a Cyrillic one
    lines[9] = "Чёрная собака бежит по улице."
    src.write_text("\n".join(lines) + "\n")
    finished = run("check", files, cwd=files.parent)
    assert finished.code == 1
    assert finished.err == ""
    warnings = [line for line in finished.out.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: val: source lines mostly in no script of 'de' [source_script]: "
        "1 (0.50%): val.de:10 (Cyrillic)",
        "warning: val: source lines with characters that the training text lacks "
        "[source_unknown_characters]: 2 (1.00%): val.de:7 (е); val.de:10 (Ч а б е ж …)",
    ]
    assert finished.out.endswith("\n2 warnings, no notes\n")


def test_json_is_one_object(files: Path) -> None:
    with (files.parent / "train.de").open("a") as src, (files.parent / "train.en").open("a") as tgt:
        src.write("\n")
        tgt.write("nothing\n")
    finished = run("check", files, "--json", "--set", "training.max_length=17", cwd=files.parent)
    assert finished.code == 1
    assert finished.out.count("\n") == 1
    report = json.loads(finished.out)
    assert (report["tokenizer"], report["unit"], report["warnings"]) == (None, "words", 1)
    assert [split["pairs"] for split in report["splits"]] == [4001, 200]
    blank, long = report["findings"]
    assert (blank["what"], blank["count"], blank["warning"]) == ("blank", 1, False)
    assert blank["places"] == ["train.de:4001 (source)"]
    assert (long["what"], long["split"], long["warning"]) == ("long", "train", True)


def test_a_run_of_the_same_experiment_counts_tokens(training: Training) -> None:
    cwd = training.config.parent
    found = run("check", training.config, cwd=cwd)
    assert found.err == ""
    assert found.out.startswith(f"{training.config}: lengths in tokens of runs/tiny/tokenizer\n")
    named = run("check", training.config, "--run-dir", training.run, "--json", cwd=cwd.parent)
    assert json.loads(named.out)["unit"] == "tokens"
    other = run("check", training.config, "--set", "data.symbols=7", "--json", cwd=cwd)
    assert json.loads(other.out)["unit"] == "words"


def test_nothing_is_written(files: Path) -> None:
    before = sorted(files.parent.rglob("*"))
    run("check", files, cwd=files.parent)
    assert sorted(files.parent.rglob("*")) == before


def test_misaligned_sides_are_an_error(files: Path) -> None:
    with (files.parent / "val.en").open("a") as file:
        file.write("one more\n")
    finished = run("check", files, cwd=files.parent)
    assert_refused(finished, 1, "val.de has 200 lines but ", "val.en has 201")


def test_a_run_without_tokenizers_is_an_error(files: Path) -> None:
    finished = run("check", files, "--run-dir", "nowhere", cwd=files.parent)
    assert_refused(finished, 1, "nowhere/tokenizer: is not there", "transformer-cli vocab")


def test_a_shifted_corpus_is_a_warning_with_the_line(files: Path) -> None:
    src = files.parent / "train.de"
    lines = src.read_text().splitlines()
    src.write_text("\n".join([*lines[:1999], *lines[2000:], "ein Hund"]) + "\n")
    finished = run("check", files, "--json", cwd=files.parent)
    assert finished.code == 1
    (found,) = (each for each in json.loads(finished.out)["findings"] if each["what"] == "shifted")
    assert (found["split"], found["warning"]) == ("train", True)
    assert abs(found["count"] - 2000) <= 32
    (place,) = found["places"]
    assert "source line n goes with target line n+1: a line is missing in the source" in place


def test_what_is_accepted_is_no_warning(files: Path) -> None:
    config = files.read_text().replace("val.", "train.")
    files.write_text(config)
    told = run("check", files, cwd=files.parent)
    assert told.code == 1
    assert (
        "warning: val: pairs that are trained on too [in_training]: 4,000 (100.00%): " in told.out
    )
    names = ("in_training", "source_in_training")
    finished = run(
        "check", files, "--json", *(f"--ignore={name}" for name in names), cwd=files.parent
    )
    assert finished.code == 0
    report = json.loads(finished.out)
    assert (report["warnings"], report["ignored"]) == (0, sorted(names))
    assert [each["what"] for each in report["findings"]] == list(names)


def test_what_nothing_is_called_cannot_be_accepted(files: Path) -> None:
    finished = run("check", files, "--ignore", "in_trainig", cwd=files.parent)
    assert_refused(finished, 2, "--ignore in_trainig: ", "did you mean 'in_training'?")

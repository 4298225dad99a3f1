import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli.process import assert_refused, run

ROOT = Path(__file__).parents[3]

FILES = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: val.de, tgt: val.en}
tokenizer: {kind: words, min_freq: 1}
"""
COPIED = "val: each target equals its source; the two files may be the same"


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
    finished = run("check", "configs/toy.yaml", cwd=ROOT)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.endswith("\n\nno warnings, no notes\n")
    assert [line.split()[:2] for line in finished.out.splitlines()[:4]] == [
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
    assert (
        "\nnote: train: pairs where the same pair occurs earlier [duplicates]: 3 (0.01%): "
        in finished.out
    )
    assert "[length_ratio]: 10 (0.03%): " in finished.out
    assert "\nno warnings, " in finished.out


def test_warnings_name_the_lines_and_are_the_exit_code_if_strict(files: Path) -> None:
    src = files.parent / "val.de"
    lines = src.read_text().splitlines()
    lines[9] = "Чёрная собака бежит по улице."
    src.write_text("\n".join(lines) + "\n")
    finished = run("check", files, "--strict", cwd=files.parent)
    assert finished.code == 1
    assert finished.err == ""
    assert run("check", files, cwd=files.parent) == replace(finished, code=0)
    assert [line for line in finished.out.splitlines() if line.startswith("warning: ")] == [
        "warning: val: pairs where most letters of a side are in a script that its language does "
        "not use [script]: 1 (0.50%): val.de:10 (source: Cyrillic)",
    ]
    assert finished.out.endswith("\n1 warning, no notes\n")


def test_json_is_one_object(files: Path) -> None:
    with (files.parent / "train.de").open("a") as src, (files.parent / "train.en").open("a") as tgt:
        src.write("\n")
        tgt.write("nothing\n")
    finished = run("check", files, "--json", cwd=files.parent)
    assert finished.code == 0
    assert finished.out.count("\n") == 1
    report = json.loads(finished.out)
    assert (report["config"], report["warnings"], report["mistakes"]) == (str(files), 0, [])
    assert report["pairs"] == {"train": 4001, "val": 200}
    (blank,) = report["findings"]
    assert (blank["what"], blank["count"], blank["warning"]) == ("blank", 1, False)
    assert blank["places"] == ["train.de:4001 (source)"]


def test_nothing_is_written(files: Path) -> None:
    before = sorted(files.parent.rglob("*"))
    run("check", files, cwd=files.parent)
    assert sorted(files.parent.rglob("*")) == before


def test_a_test_file_that_is_gone_is_told_beside_the_rest(files: Path) -> None:
    test = "  test: {news: {src: gone.de, tgt: gone.en}}\ntokenizer:"
    files.write_text(FILES.replace("tokenizer:", test))
    finished = run("check", files, cwd=files.parent)
    assert finished.code == 0
    assert "note: news: not checked: " in finished.out


def test_misaligned_sides_are_an_error(files: Path) -> None:
    with (files.parent / "val.en").open("a") as file:
        file.write("one more\n")
    finished = run("check", files, cwd=files.parent)
    assert_refused(finished, 1, "val.de has 200 lines but ", "val.en has 201")


def test_a_shifted_corpus_is_a_warning_with_the_line(files: Path) -> None:
    src = files.parent / "train.de"
    lines = src.read_text().splitlines()
    src.write_text("\n".join([*lines[:1999], *lines[2000:], "ein Hund"]) + "\n")
    finished = run("check", files, "--json", "--strict", cwd=files.parent)
    assert finished.code == 1
    (found,) = (each for each in json.loads(finished.out)["findings"] if each["what"] == "shifted")
    assert (found["split"], found["warning"]) == ("train", True)
    assert abs(found["count"] - 2000) <= 32
    (place,) = found["places"]
    assert "source line n matches target line n+1: a line is missing in the source" in place


def test_pairs_that_are_trained_on_are_a_warning(files: Path) -> None:
    for side in ("de", "en"):
        text = (files.parent / f"train.{side}").read_text()
        (files.parent / f"val.{side}").write_text("".join(text.splitlines(keepends=True)[1:]))
    told = run("check", files, "--strict", cwd=files.parent)
    assert told.code == 1
    assert (
        "warning: val: pairs that are also in the training text [in_training]: 3,999 (100.00%): "
        in told.out
    )


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("val.", "train.", "val: {here}/train.de is also training text, as part of train"),
        ("val.", "copy.", "val: its text equals the training text"),
        ("tgt: val.en", "tgt: val.de", COPIED),
        ("tgt: val.en", "tgt: same.de", COPIED),
        ("tgt_lang: en", "tgt_lang: ru", None),
        (
            "src_lang: de\n  tgt_lang: en",
            "src_lang: ru\n  tgt_lang: de",
            "val: its source is in the script of 'de' and its target in that of 'ru', so the "
            "sides are swapped",
        ),
    ],
)
def test_only_what_can_only_be_a_mistake_is_the_exit_code(
    files: Path, old: str, new: str, told: str | None
) -> None:
    here = files.parent
    for side in ("de", "en"):
        shutil.copy(here / f"train.{side}", here / f"copy.{side}")
    shutil.copy(here / "val.de", here / "same.de")
    if "ru" in new and told is not None:
        (here / "val.en").write_text("Собака бежит\n" * 200)
    files.write_text(files.read_text().replace(old, new))
    finished = run("check", files, cwd=here)
    mistakes = [line for line in finished.out.splitlines() if line.startswith("mistake: ")]
    if told is None:
        assert (finished.code, mistakes) == (0, [])
        return
    assert finished.code == 1
    assert f"mistake: {told.format(here=here)}" in mistakes
    assert f"\n{len(mistakes)} mistake" in finished.out
    as_json = json.loads(run("check", files, "--json", cwd=here).out)
    assert [f"mistake: {each}" for each in as_json["mistakes"]] == mistakes

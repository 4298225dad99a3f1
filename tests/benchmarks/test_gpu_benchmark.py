"""The GPU's benchmark, shrunk and on the CPU: each part measures, and none can spoil the others."""

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu import __main__ as gpu, exactness, profiled, syncs, whole
from benchmarks.gpu.corpus import load_corpus
from benchmarks.gpu.parts import PARTS, Part, Row
from benchmarks.gpu.profiled import Kernel, busy_time
from benchmarks.gpu.report import format_value, render
from benchmarks.gpu.runner import Outcome, run_parts
from benchmarks.gpu.setting import SMALL_MODEL, Setting, attempt
from transformer_cli.base.errors import UsageError

TESTED_ALONE = {"whole", "exactness"}
ON_CPU = [part.name for part in PARTS if not part.needs_gpu and part.name not in TESTED_ALONE]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return Setting(torch.device("cpu"), True, tmp_path_factory.mktemp("gpu"))


@pytest.fixture(scope="module")
def whole_rows(setting: Setting) -> list[Row]:
    return list(whole.measure(setting))


def numbers(row: Row) -> list[float]:
    return [value for value in row.values() if not isinstance(value, str)]


# --- parts ----------------------------------------------------------------------------------------


def test_a_part_is_a_module_with_a_measurement() -> None:
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
    for name in names:
        assert callable(import_module(f"benchmarks.gpu.{name}").measure)


@pytest.mark.long
@pytest.mark.parametrize("name", ON_CPU)
def test_a_part_measures_on_the_cpu(
    name: str, setting: Setting, request: pytest.FixtureRequest
) -> None:
    if name == "decoding":  # it needs a run
        request.getfixturevalue("whole_rows")
    rows = list(import_module(f"benchmarks.gpu.{name}").measure(setting))
    assert rows
    assert not [row for row in rows if "error" in row]
    assert all(np.isfinite(numbers(row)).all() for row in rows)
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.long
def test_the_way_to_a_score_is_told_phase_by_phase(whole_rows: list[Row]) -> None:
    timeline = [row for row in whole_rows if "phase" in row]
    assert [str(row["phase"]).partition(" (")[0] for row in timeline] == [
        "start",
        "vocabulary",
        "encoding",
        "model and forecast",
        "steps",
        "validation",
        "end",
    ]
    times = [float(row["since the start, s"]) for row in timeline]
    assert times == sorted(times)
    *_, last = whole_rows
    assert sum(float(row["seconds"]) for row in timeline) == pytest.approx(times[-1])
    assert times[-1] <= float(last["train, s"]) < float(last["together, s"])
    assert last["split"] == "test"


@pytest.mark.long
def test_a_step_of_float32_on_the_cpu_is_the_reference_itself(setting: Setting) -> None:
    rows = list(exactness.measure(setting))
    assert len(rows) == 8
    for row in rows:
        errors = [row["gradients"], row["loss"], row["loss of step 5"]]
        if row["precision"] == "float32":
            assert errors == [0.0] * 3
        else:
            assert all(0.0 < float(error) < 0.02 for error in errors)


def test_part_of_the_corpus_makes_as_many_batches_as_asked(setting: Setting) -> None:
    corpus = load_corpus(setting)
    config = corpus.config(SMALL_MODEL, 512, 1)
    steps = corpus.trainer(config, corpus.take(5, 512)).steps_per_epoch
    assert 5 <= steps <= 8
    assert len(corpus.take(10**6, 512)) == len(corpus.text)


def test_waits_are_counted_by_the_innermost_line_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(syncs, "_PACKAGE", str(Path(__file__).parent))
    with syncs.recorded_syncs() as places:
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert modes == ["warn", "default"]
    ((place, count),) = places.items()
    assert count == 3
    assert place.startswith("test_gpu_benchmark.py:")
    assert "called a synchronizing" in place


def test_time_busy_is_the_union_of_the_kernels() -> None:
    kernels = [Kernel("a", 10, 20), Kernel("b", 15, 18), Kernel("c", 19, 25), Kernel("d", 30, 31)]
    assert busy_time(kernels) == 16
    row = profiled.summarize(kernels, {"cudaLaunchKernel": 6, "aten::add": 9}, 2)
    assert row["kernel launches a step"] == 3
    assert row["% busy"] == pytest.approx(100 * 16 / 21)


def test_an_error_costs_one_row() -> None:
    def rows() -> Iterator[Row]:
        yield {"speed": 1}
        raise RuntimeError("CUDA error: out of memory\nadvice")

    assert list(attempt({"model": "base"}, rows())) == [
        {"model": "base", "speed": 1},
        {"model": "base", "error": "RuntimeError: CUDA error: out of memory"},
    ]


# --- processes ------------------------------------------------------------------------------------

CHILD = """\
import argparse, json, subprocess, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--part")
parser.add_argument("--rows")
options = parser.parse_args()
with open(options.rows, "a") as rows:
    rows.write(json.dumps({"first": 1}) + "\\n")
    rows.flush()
    if options.part == "hangs":
        rows.write('{"cut')
        rows.flush()
        subprocess.run(["sleep", "1000"])
    if options.part == "fails":
        raise ValueError("what went wrong")
    rows.write(json.dumps({"first": 2}) + "\\n")
"""


def part(name: str, limit: float = 60.0, needs_gpu: bool = False) -> Part:
    return Part(name, name, "", limit, needs_gpu)


def run(parts: list[Part], out: Path, total: float = 100.0) -> dict[str, Outcome]:
    command = [sys.executable, "-c", CHILD]
    return {each.name: each for each in run_parts(parts, command, False, total, out)}


def test_a_part_that_fails_or_hangs_costs_its_own_rows_only(tmp_path: Path) -> None:
    parts = [part("fails"), part("hangs", limit=2.0), part("gpu", needs_gpu=True), part("works")]
    found = run(parts, tmp_path)

    assert found["works"].rows == [{"first": 1}, {"first": 2}]
    assert found["works"].ok
    assert found["works"].note == ""
    for name in ("fails", "hangs"):
        assert not found[name].ok
        assert found[name].rows == [{"first": 1}]
    assert found["fails"].note.endswith("ValueError: what went wrong\nended with status 1")
    assert found["hangs"].note.endswith("killed after 2 s")
    assert found["gpu"] == Outcome("gpu", False, 0.0, [], "skipped: needs a GPU")
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [each.name for each in parts]
    assert "what went wrong" in (tmp_path / "log.txt").read_text()


def test_parts_that_are_not_reached_are_named(tmp_path: Path) -> None:
    found = run([part("works")], tmp_path, total=0.5)
    assert found["works"].note == "not reached: the time for all parts was over"


def test_the_report_has_a_section_a_part_and_a_table_a_set_of_columns() -> None:
    first: list[Row] = [{"a": "x", "n": 12345.6}, {"b": 0.012345}, {"a": "y", "n": 1}]
    outcomes = [
        Outcome("peaks", True, 1.0, first),
        Outcome("speed", False, 60.0, [{"a": "z"}], "line\nValueError: no\nkilled after 60 s"),
        Outcome("syncs", False, 0.0, [], "skipped: needs a GPU"),
    ]
    report = render("head", outcomes, "On the toy corpus.")
    title, peaks, speed, waits = report.split("\n### ")
    assert title == "## On a GPU\n\nhead\n"
    assert "| a | n |\n| --- | ---: |\n| x | 12,346 |\n| y | 1 |\n" in peaks
    assert "| 0.0123 |" in peaks
    assert "toy" not in peaks
    assert "On the toy corpus." in speed
    assert "Not measured to the end: ValueError: no; killed after 60 s." in speed
    assert waits.endswith("Not measured: skipped: needs a GPU.\n")


@pytest.mark.parametrize(
    ("value", "written"),
    [(1234567, "1,234,567"), (1234.5, "1,234"), (0.5, "0.5"), ("a|b", "a\\|b")],
)
def test_figures_are_written_with_three_digits_or_in_full(
    value: str | int | float, written: str
) -> None:
    assert format_value(value) == written


@pytest.mark.long
def test_the_whole_call_writes_results_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    arguments = ["--device", "cpu", "--small", "--out", str(out), "--work", str(work)]
    assert gpu.main([*arguments, "--parts", "peaks", "syncs", "corpus"]) == 0
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [(line["name"], line["ok"]) for line in lines] == [
        ("peaks", True),
        ("syncs", False),
        ("corpus", True),
    ]
    report = (out / "report.md").read_text()
    assert report.startswith("## On a GPU\n\n- machine: ")
    assert report in capsys.readouterr().out
    assert "On the toy corpus, not Multi30k." in report


def test_without_a_gpu_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"^`device` cuda: torch sees no CUDA device.*$") as found:
        gpu.main(["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")])
    assert isinstance(found.value.__cause__, UsageError)


def test_without_multi30k_the_toy_corpus_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.gpu.setting.is_multi30k_here", lambda: False)
    full = Setting(torch.device("cpu"), False, tmp_path)
    assert full.config(SMALL_MODEL).data.kind == "toy"
    assert full.config(SMALL_MODEL).model.d_model == 256
    monkeypatch.setattr("benchmarks.gpu.setting.is_multi30k_here", lambda: True)
    assert full.config(SMALL_MODEL).data.kind == "multi30k"
    assert replace(full, small=True).config(SMALL_MODEL).model.d_model == 64

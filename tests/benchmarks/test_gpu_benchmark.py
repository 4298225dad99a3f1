"""The GPU's benchmark, shrunk and on the CPU."""

import faulthandler
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.__main__ import Row, Setting, measure, section


@pytest.mark.long
def test_parts_are_reported_as_they_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    arguments = ["--device", "cpu", "--small", "--out", str(out), "--work", str(work)]
    try:
        assert gpu.main([*arguments, "--parts", "exactness", "speed", "resuming"]) == 0
    finally:
        faulthandler.cancel_dump_traceback_later()
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["part"] for line in lines] == ["exactness", "speed", "resuming"]
    exactness, speed, resuming = (line["rows"] for line in lines)
    for row in exactness:
        errors = [row["gradients"], row["loss"], row["loss of step 5"]]
        assert all(0.0 < error < 0.02 for error in errors) or row["precision"] == "torch.float32"
    assert all(row["target tokens/s"] > 0 for row in speed)
    assert {row["resumed: largest difference"] for row in resuming} == {0.0}
    report = (out / "report.md").read_text()
    assert report.startswith("## On a GPU\n\n- machine: ")
    assert report in capsys.readouterr().out


def test_an_error_costs_only_its_own_part(tmp_path: Path) -> None:
    def part(setting: Setting) -> Iterator[Row]:
        """A part."""
        yield {"a": "x", "n": 12345.6}
        raise RuntimeError("CUDA error: out of memory\nadvice")

    rows, error = measure(part, Setting(torch.device("cpu"), True, tmp_path))
    assert (rows, error) == ([{"a": "x", "n": 12345.6}], "RuntimeError: CUDA error: out of memory")
    assert "| a | n |\n| --- | ---: |\n| x | 12,346 |\n" in section(part, rows, error)


def test_without_a_gpu_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"^`device` cuda: torch finds no CUDA device.*$"):
        gpu.main(["--out", str(tmp_path / "out")])

"""The picture of a run's curves."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from transformer_cli.extensions.observers.curves import draw_curves


def record(kind: str, step: int, **values: Any) -> dict[str, Any]:
    return {"kind": kind, "step": step, "epoch": 1, "seconds": 1.0, **values}


SESSION = record("session", 0, device="cpu", threads=2)
TRAIN = [
    record("train", step, loss=9.0 / step, perplexity=90.0 / step, learning_rate=1e-3)
    for step in (10, 20, 30)
]
VALIDATION = [
    record("validation", 20, loss=1.0, perplexity=2.7, bleu=30.0, bleu_lc=31.5, best=True),
    record("validation", 30, loss=1.1, perplexity=3.0, bleu=29.0, bleu_lc=30.0, best=False),
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    figures = []
    save = Figure.savefig

    def saved(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    return figures


def draw(directory: Path, *records: dict[str, Any]) -> Path:
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    picture = directory / "curves.png"
    draw_curves(directory / "metrics.jsonl", picture, "runs/größe$_{")
    return picture


@pytest.mark.long
def test_a_panel_each_with_the_best_step_marked(tmp_path: Path, drawn: list[Figure]) -> None:
    picture = draw(tmp_path, SESSION, *TRAIN, *VALIDATION)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1100, 704)
    (figure,) = drawn
    panels = {axes.get_title("left"): axes for axes in figure.axes}
    assert list(panels) == ["loss", "perplexity", "BLEU", "learning rate"]
    curves = {
        name: [
            np.asarray(line.get_xydata()).tolist()
            for line in axes.lines
            if line.get_linestyle() == "-"
        ]
        for name, axes in panels.items()
    }
    assert curves["loss"] == [[[10, 0.9], [20, 0.45], [30, 0.3]], [[20, 1.0], [30, 1.1]]]
    assert curves["BLEU"] == [[[20, 30.0], [30, 29.0]]]
    assert curves["learning rate"] == [[[10, 1e-3], [20, 1e-3], [30, 1e-3]]]
    assert panels["BLEU"].get_legend_handles_labels()[1] == ["validation (best, step 20: 30.00)"]
    assert figure.get_suptitle() == "runs/größe$_{"


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("select", "title", "best"),
    [("bleu_lc", "BLEU lowercased", "31.50"), ("chrf", "chrF", "52.00"), ("loss", "BLEU", "30.00")],
)
def test_the_score_that_counts_is_shown(
    tmp_path: Path, drawn: list[Figure], select: str, title: str, best: str
) -> None:
    validated = [{**each, "chrf": 52.0, "select": select} for each in VALIDATION]
    draw(tmp_path, *TRAIN, *validated)
    axes = drawn[0].axes[2]
    assert axes.get_title("left") == title
    assert axes.get_legend_handles_labels()[1] == [f"validation (best, step 20: {best})"]


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "records",
    [
        TRAIN[:1],
        VALIDATION[1:],
        [record("train", 5, loss=1.0, perplexity=float("inf"), learning_rate=0)],
    ],
    ids=["no validation", "no best step", "infinite"],
)
def test_whatever_there_is_is_drawn(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    assert draw(tmp_path, *records).is_file()


@pytest.mark.long
def test_the_same_records_make_the_same_bytes(tmp_path: Path) -> None:
    first = draw(tmp_path, *TRAIN, *VALIDATION).read_bytes()
    assert draw(tmp_path, *TRAIN, *VALIDATION).read_bytes() == first


def test_without_records_there_is_no_picture(tmp_path: Path) -> None:
    assert not draw(tmp_path).exists()


def test_what_cannot_be_drawn_leaves_the_older_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = draw(tmp_path, *TRAIN).read_bytes()

    def fail(figure: Figure, *arguments: Any, **options: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(RuntimeError):
        draw(tmp_path, *VALIDATION)
    assert (tmp_path / "curves.png").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl", "curves.png"}

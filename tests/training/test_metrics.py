"""metrics.jsonl after a crash, and sums that survive one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_cli.training.loss import Losses
from transformer_cli.training.metrics import MetricsLog
from transformer_cli.training.session import Window
from transformer_cli.training.trainer import StepResult

CPU = torch.device("cpu")


def record(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "train", "step": step, "epoch": 0, **values}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def progress(loss: float, nll_loss: float, tgt_tokens: int) -> StepResult:
    losses = Losses(torch.tensor(loss), torch.tensor(nll_loss))
    return StepResult(1, 0, 0.1, losses, tgt_tokens, False, torch.tensor(True), torch.tensor(1.0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_the_file_is_there_before_its_first_record(path: Path) -> None:
    MetricsLog.open(path, last_step=0)
    assert path.read_text() == ""


def test_records_are_lines_in_their_order(path: Path) -> None:
    log = MetricsLog.open(path, last_step=0)
    given = [record(50, loss=0.1 + 0.2), record(50, bleu=1e-9), record(100, loss=3.0)]
    for each in given:
        log.append(each)
    assert records(path) == given
    assert path.read_text().count("\n") == 3


def test_an_earlier_record_is_read_while_training_goes_on(path: Path) -> None:
    log = MetricsLog.open(path, last_step=0)
    log.append(record(50))
    assert records(path) == [record(50)]
    log.append(record(100))
    assert records(path) == [record(50), record(100)]


def test_bytes_that_are_no_text_are_replaced(path: Path) -> None:
    """As JSON's parser takes halves of surrogate pairs, and UTF-16."""
    path.write_bytes(b'{"kind": "train", "step": 1, "x": "\xed\xa0\x80"}\n')
    MetricsLog.open(path, last_step=1)
    assert records(path)[0]["step"] == 1


@pytest.mark.parametrize(("last_step", "left"), [(0, 0), (49, 0), (50, 2), (99, 2), (100, 3)])
def test_what_was_measured_after_the_checkpoint_is_forgotten(
    path: Path, last_step: int, left: int
) -> None:
    log = MetricsLog.open(path, last_step=0)
    given = [record(50), record(50, bleu=1.0), record(100)]
    for each in given:
        log.append(each)
    resumed = MetricsLog.open(path, last_step)
    assert records(path) == given[:left]
    resumed.append(record(150))
    assert records(path) == [*given[:left], record(150)]


def test_a_line_cut_short_anywhere_is_forgotten(path: Path) -> None:
    whole = json.dumps(record(50)) + "\n"
    for kept in range(len(whole)):
        path.write_text(json.dumps(record(10)) + "\n" + whole[:kept])
        MetricsLog.open(path, last_step=50).append(record(60))
        found = records(path)  # all lines are JSON, at least
        assert (found[0], found[-1]) == (record(10), record(60))
        assert found[1:-1] in ([], [record(50)])


@pytest.mark.parametrize("line", ["", "7", "null", "[]", "{}", '{"step": null}', "\x00\x00"])
def test_a_line_that_is_no_record_is_forgotten(path: Path, line: str) -> None:
    path.write_text(f"{line}\n{json.dumps(record(10))}\n")
    MetricsLog.open(path, last_step=50)
    assert records(path) == [record(10)]


def test_a_window_sums_up() -> None:
    window = Window.empty(CPU)
    window.add(progress(1.5, 1.25, 3))
    window.add(progress(2.5, 0.5, 4))
    assert window.state() == {"loss": 4.0, "nll_loss": 1.75, "tgt_tokens": 7}


def test_a_window_goes_on_from_its_state_exactly() -> None:
    steps = [progress(1 / (number + 3), 1e6 / (number + 7), number) for number in range(20)]
    straight, window = Window.empty(CPU), Window.empty(CPU)
    for each in steps:
        straight.add(each)
        window.add(each)
        window = Window.from_state(json.loads(json.dumps(window.state())), CPU)
    assert window.state() == straight.state()


def test_an_empty_window_is_new_each_time() -> None:
    Window.empty(CPU).add(progress(1.0, 1.0, 1))
    assert Window.empty(CPU).state() == {"loss": 0.0, "nll_loss": 0.0, "tgt_tokens": 0}


def test_many_small_losses_are_not_lost_to_rounding() -> None:
    window = Window.empty(CPU)
    window.add(progress(2.0**24, 2.0**24, 1))
    for _ in range(4):
        window.add(progress(1.0, 1.0, 1))  # float32 would stay at 2^24
    assert window.state() == {"loss": 2.0**24 + 4, "nll_loss": 2.0**24 + 4, "tgt_tokens": 5}

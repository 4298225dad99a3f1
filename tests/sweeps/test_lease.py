"""Leases: one holder at a time, whatever happens to the others."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from transformer_cli.sweeps import lease
from transformer_cli.sweeps.lease import Lease, LeaseBoard

TASK = "runs/dropout=0.1/seed-1"


class Clock:
    """A clock that goes on when it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _hold_elsewhere(board: LeaseBoard, machine: str = "elsewhere", process: int = 1) -> Lease:
    """Have a process of another machine hold the task."""
    held = board.claim(TASK)
    assert held is not None
    held.path.write_text(json.dumps({"machine": machine, "process": process}))
    return held


def test_of_many_that_claim_at_once_one_gets_it(tmp_path: Path) -> None:
    leases = [Lease(tmp_path / TASK, 0)] * 16
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lease.create_next, leases))
    assert sum(each is not None for each in found) == 1


def test_a_held_task_is_nobody_elses(tmp_path: Path) -> None:
    _hold_elsewhere(LeaseBoard(tmp_path))
    assert LeaseBoard(tmp_path).claim(TASK) is None


def test_a_released_task_is_had_at_once_with_the_next_generation(tmp_path: Path) -> None:
    first = LeaseBoard(tmp_path).claim(TASK)
    assert first is not None
    first.release()
    second = LeaseBoard(tmp_path).claim(TASK)
    assert second is not None
    assert (first.generation, second.generation) == (1, 2)
    assert first.has_ended()


def test_the_task_of_a_dead_process_of_this_machine_is_had_at_once(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    held = _hold_elsewhere(LeaseBoard(tmp_path), lease.this_machine(), dead.pid)
    assert held.has_ended()
    assert LeaseBoard(tmp_path).claim(TASK) is not None


def test_a_process_that_had_our_number_is_dead(tmp_path: Path) -> None:
    # A container that is started again has the same name, and its processes the same numbers.
    _hold_elsewhere(LeaseBoard(tmp_path), lease.this_machine(), os.getpid())
    assert LeaseBoard(tmp_path).claim(TASK) is not None


def test_a_silent_holder_loses_the_task_after_a_whole_lease(tmp_path: Path) -> None:
    clock = Clock()
    held = _hold_elsewhere(LeaseBoard(tmp_path))
    board = LeaseBoard(tmp_path, clock)
    assert board.claim(TASK) is None
    clock.now += lease.LEASE_SECONDS - 1
    assert board.claim(TASK) is None
    assert not held.is_lost()
    clock.now += 2
    taken = board.claim(TASK)
    assert taken is not None
    assert held.is_lost()
    assert not held.has_ended()  # it may go on
    assert not taken.is_lost()


def test_a_holder_that_wakes_after_its_successor_is_done_has_lost(tmp_path: Path) -> None:
    clock = Clock()
    held = _hold_elsewhere(LeaseBoard(tmp_path))
    board = LeaseBoard(tmp_path, clock)
    assert board.claim(TASK) is None
    clock.now += lease.LEASE_SECONDS + 1
    taken = board.claim(TASK)
    assert taken is not None
    taken.release()
    assert held.is_lost()


def test_a_generation_is_never_used_again(tmp_path: Path) -> None:
    first = LeaseBoard(tmp_path).claim(TASK)
    assert first is not None
    first.release()
    assert lease.create_next(Lease(tmp_path / TASK, 0)) is None  # by a listing of long ago


def test_whether_anyone_is_at_work(tmp_path: Path) -> None:
    board = LeaseBoard(tmp_path)
    assert not board.has_active_workers()
    held = _hold_elsewhere(board)
    assert board.has_active_workers()
    held.release()
    assert not board.has_active_workers()


def test_a_holder_that_beats_keeps_the_task(tmp_path: Path) -> None:
    clock = Clock()
    held = _hold_elsewhere(LeaseBoard(tmp_path))
    board = LeaseBoard(tmp_path, clock)
    for beat in range(10):
        assert board.claim(TASK) is None
        clock.now += lease.LEASE_SECONDS - 1
        os.utime(held.path, (beat, beat))


def test_a_lease_that_was_not_written_to_its_end_is_held(tmp_path: Path) -> None:
    held = _hold_elsewhere(LeaseBoard(tmp_path))
    held.path.write_text("")
    assert LeaseBoard(tmp_path).claim(TASK) is None


def test_names_with_dots_and_digits_are_not_confused(tmp_path: Path) -> None:
    board = LeaseBoard(tmp_path)
    for task in ("runs/a/seed-1", "runs/a/seed-10", "runs/a/seed-1.1"):
        found = board.claim(task)
        assert found is not None
        assert found.generation == 1
        found.path.write_text(json.dumps({"machine": "elsewhere", "process": 1}))

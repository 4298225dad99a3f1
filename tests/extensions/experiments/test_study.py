"""Trials of a search: the same whoever asks, each once, and ended once."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

import children
import pytest

from transformer_cli.base.errors import ConfigError, RunError
from transformer_cli.config.setting_tree import parse
from transformer_cli.extensions.experiments import search as study_module
from transformer_cli.extensions.experiments.search import Study, Trial
from transformer_cli.extensions.experiments.sweep_file import Draws, Prune, Space, read_space

pytest.importorskip("optuna")

SPACE = "{a: {log: [5e-4, 5e-1]}, b: {uniform: [0, 0.4]}, c: [512, 1024, 2048], d: {int: [1, 9]}}"


def space_of(text: str = SPACE) -> Space:
    return read_space(parse(text, "sweep.yaml"))


def open_study(
    directory: Path, sampler: Draws = "tpe", seed: int = 1, prune: Prune = "none"
) -> Study:
    return Study(directory, space_of(), sampler, seed, prune)


def score(values: dict[str, object]) -> float:
    """Return a metric that is 40 at its best: a = 0.005, b = 0.25, c = 1024; d does not matter."""
    a, b = values["a"], values["b"]
    assert isinstance(a, float)
    assert isinstance(b, float)
    return 40 - 3 * abs(math.log10(a / 5e-3)) - 20 * abs(b - 0.25) - 2 * (values["c"] != 1024)


def ask(study: Study) -> Trial:
    point = study.ask(1000)
    assert point is not None
    return point


def search(study: Study, trials: int) -> list[dict[str, object]]:
    """Complete trials up to a number; return the values of all that there are."""
    while point := study.ask(trials):
        study.end(point.number, "complete", score(point.values))
    return [trial.values for trial in study.trials]


# A process that completes trials up to a number, and prints those that it was given.
WORKER = """
import sys
from pathlib import Path
from extensions.experiments.test_study import *
directory, trials, before = sys.argv[1:]
study = open_study(Path(directory))
exec(before)
while point := study.ask(int(trials)):
    print(point.number, flush=True)
    study.end(point.number, "complete", score(point.values))
"""


def start_worker(directory: Path, trials: int, before: str = "") -> subprocess.Popen[bytes]:
    """Start a worker that runs the statements ``before`` when it has opened the study."""
    return children.start(
        [sys.executable, "-c", WORKER, directory, str(trials), before],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(worker: subprocess.Popen[bytes]) -> list[int]:
    """Wait for a worker; return the numbers of its trials."""
    out, err = worker.communicate(timeout=60)
    assert (worker.returncode, err) == (0, b""), err.decode()
    return [int(number) for number in out.split()]


def test_optuna_is_imported_when_a_study_is_opened_and_needs_no_database() -> None:
    program = (
        "import sys, transformer_cli.extensions.experiments.search as s;"
        "assert 'optuna' not in sys.modules;"
        "o = s.import_optuna(); o.storages.JournalStorage; o.samplers.TPESampler;"
        "print(sorted({'sqlalchemy', 'alembic', 'torch', 'pandas'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.long
def test_tpe_finds_the_best_region_sooner_than_random_draws(tmp_path: Path) -> None:
    def scores(sampler: Draws, seed: int) -> list[float]:
        study = open_study(tmp_path / f"{sampler}-{seed}", sampler, seed)
        return [score(values) for values in search(study, 30)]

    tpe, random = ([scores(sampler, seed) for seed in (1, 2, 3)] for sampler in ("tpe", "random"))
    gains = [mean(ours[10:]) - mean(theirs[10:]) for ours, theirs in zip(tpe, random, strict=True)]
    assert min(gains) > 0
    assert mean(gains) > 1.5
    assert mean(map(max, tpe)) > mean(map(max, random)) + 0.5


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_study_that_is_opened_for_each_trial_has_the_same_points(
    tmp_path: Path, sampler: Draws
) -> None:
    straight = search(open_study(tmp_path / "straight", sampler), 14)
    for limit in range(15):
        search(open_study(tmp_path / "again", sampler), limit)
    assert search(open_study(tmp_path / "again", sampler), 14) == straight
    assert search(open_study(tmp_path / "other", sampler, seed=2), 14) != straight


def test_a_study_continued_by_other_processes_has_the_same_points(tmp_path: Path) -> None:
    for limit in (5, 14):
        finish(start_worker(tmp_path / "parts", limit))
    straight = search(open_study(tmp_path / "straight"), 14)
    assert [each.values for each in open_study(tmp_path / "parts").trials] == straight
    assert len({json.dumps(each) for each in straight}) == 14


# Killed when it has written half of a trial's line.
KILL = """
search(study, 3)
def kill(handle):
    os.ftruncate(handle, os.fstat(handle).st_size - 40)
    os.kill(os.getpid(), signal.SIGKILL)
os.fsync = kill
"""


@pytest.mark.posix
def test_a_worker_killed_while_it_asks_is_no_obstacle(tmp_path: Path) -> None:
    killed = start_worker(tmp_path / "killed", 14, KILL)
    killed.wait(60)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / study_module.JOURNAL).read_bytes().endswith(b"\n")
    began = time.monotonic()
    continued = search(open_study(tmp_path / "killed"), 14)
    print(f"went on within {time.monotonic() - began:.2f} s")
    assert continued == search(open_study(tmp_path / "straight"), 14)


def test_ending_and_reporting_twice_count_once(tmp_path: Path) -> None:
    point = ask(open_study(tmp_path))
    for value in (10.0, 99.0):
        study = open_study(tmp_path)
        study.report(point.number, [value])
        assert study._history()[0].intermediate_values == {1: 10.0}
    study.end(point.number, "complete", 20.0)
    for again in (study, open_study(tmp_path)):
        again.end(point.number, "complete", 21.0)
        again.end(point.number, "fail", why="too late")
        again.end(point.number, "pruned")
        again.report(point.number, [10.0, 30.0])
        assert not again.should_prune(point.number)
        assert again.trials == [Trial(0, point.values, "complete", 20.0)]


def test_a_failed_trial_says_why_and_the_search_goes_on(tmp_path: Path) -> None:
    study = open_study(tmp_path)
    ask(study)
    study.end(0, "fail", why="out of memory")
    study.end(0, "complete", 30.0)
    [trial] = study.trials
    assert (trial.state, trial.value, trial.why) == ("fail", None, "out of memory")
    assert study.should_prune(0)
    assert len(search(study, 13)) == 13
    assert study.ask(13) is None


@pytest.mark.parametrize(("prune", "first"), [("median", 3), ("halving", 3), ("none", None)])
def test_a_hopeless_trial_is_pruned(tmp_path: Path, prune: Prune, first: int | None) -> None:
    study = open_study(tmp_path, prune=prune)
    for number in range(5):
        ask(study)
        for step in range(1, 13):
            study.report(number, [10.0 + done + number for done in range(1, step + 1)])
            assert not study.should_prune(number)
        study.end(number, "complete", 30.0)
    hopeless = ask(study).number
    stopped_at = None
    for step in range(1, 13):
        study.report(hopeless, [0.5] * step)
        if study.should_prune(hopeless):
            stopped_at = step
            break
    assert stopped_at == first
    if first:
        # Its worker dies before it tells; the next comes to the same.
        again = open_study(tmp_path, prune=prune)
        again.report(hopeless, [0.5] * first)
        assert again.should_prune(hopeless)
        again.end(hopeless, "pruned")
        again.end(hopeless, "complete", 1.0)
        again = open_study(tmp_path, prune=prune)
        assert again.trials[hopeless].state == "pruned"
        assert again.trials[hopeless].value == 0.5
        assert again.should_prune(hopeless)


def test_a_small_space_is_searched_once(tmp_path: Path) -> None:
    study = Study(tmp_path, space_of("{a: [x, y, z], b: {int: [1, 4]}}"), "tpe", 1, "none")
    seen = []
    while point := study.ask(100):
        seen.append(point.values)
        study.end(point.number, "complete", float(point.values["a"] == "y"))
    assert len(seen) == 12
    assert len({json.dumps(each) for each in seen}) == 12


def test_points_of_workers_side_by_side_differ(tmp_path: Path) -> None:
    study = open_study(tmp_path)
    search(study, 12)
    side_by_side = [ask(study).values for _ in range(4)]
    assert len({json.dumps(each) for each in side_by_side}) == 4
    assert [trial.state for trial in study.trials[12:]] == ["running"] * 4


def test_another_search_is_refused_in_the_same_place(tmp_path: Path) -> None:
    open_study(tmp_path)
    with pytest.raises(ConfigError, match=r"study\.journal: this search began with seed 1, not 2"):
        open_study(tmp_path, seed=2)
    with pytest.raises(ConfigError, match=r"began with search\.b \{uniform.*\}, not left out"):
        Study(tmp_path, space_of("{a: {log: [5e-4, 5e-1]}}"), "tpe", 1, "none")
    open_study(tmp_path, prune="median")


@pytest.mark.parametrize("line", ["junk", "[]", '{"op_code": 99}', "{}"])
def test_a_damaged_journal_is_named_in_one_line(tmp_path: Path, line: str) -> None:
    open_study(tmp_path)
    with (tmp_path / study_module.JOURNAL).open("a") as journal:
        journal.write(f"{line}\n")
    with pytest.raises(RunError, match=r"study\.journal: damaged \(.*\); restore it, or give"):
        open_study(tmp_path)

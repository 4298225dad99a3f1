"""A training that is killed again and again, at random, ends as one that was left alone."""

import fcntl
import json
import os
import platform
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from cli.process import PATIENCE, run, start
from cli.same import assert_same_run
from copied_text import write_copied

SAVE_EVERY, VALIDATE_EVERY = 20, 100
EXPERIMENT = f"""\
data: DATA
tokenizer: {{kind: words, min_freq: 1}}
model: {{d_model: 32, num_heads: 2, d_ff: 64, num_encoder_layers: 1, num_decoder_layers: 1}}
training:
  epochs: 1000
  batch_tokens: 300
  validate_every: {VALIDATE_EVERY}
  save_every: {SAVE_EVERY}
  keep_last: 1
  schedule: {{kind: constant, peak: 1e-2, warmup: 10}}
"""
# No kill waits for more checkpoints than this, so that the run does not end before the last kill.
MOST_CHECKPOINTS = 2
# What is aimed at, and how often; the first kills are for what happens once only.
FIRST_AIMS = ["start", "tokenizer", "encoding", "saving"]
AIMS = {"start": 1, "anywhere": 3, "training": 2, "saving": 3, "pruning": 1, "validating": 1}
_TRAINS = "parameters "
"""Is shown right before the first step."""


@dataclass
class Kill:
    """One kill, as the summary tells it."""

    number: int
    aim: str
    seconds: float
    """After the start of the process."""
    hit: str
    """What the process was doing, by what it left behind."""
    saved_before: int
    """Step of the newest checkpoint when the process started."""
    saved: int
    """The same when it was killed."""
    reached: int
    """Last step that is known to be done: by the bar, which moves every 0.1 s, and by files."""
    steps_lost: int
    seconds_lost: float
    """Time spent training since the newest checkpoint."""


class Watched:
    """A training in a terminal of its own, and what can be seen of it.

    Args:
        command: what ``transformer-cli`` is given.
        run: its run directory.
    """

    def __init__(self, command: list[str | Path], run: Path) -> None:
        self.run = run
        self.checkpoints = run / "checkpoints"
        self.saved_before = self.saved
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 100, 0, 0))
        self.began = time.monotonic()
        self.process = start(
            *command,
            cwd=run.parent,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        os.set_blocking(self._terminal, False)
        self.shown = ""
        self.training_since: float | None = None

    @property
    def saved(self) -> int:
        """The newest checkpoint's step."""
        return max(self._steps(r"step-(\d+)"), default=0)

    @property
    def reached(self) -> int:
        """The last step that is known to be done."""
        _, _, training = self.shown.partition(_TRAINS)  # there are other bars before
        on_the_bar = re.findall(r"\| (\d+)/\d+ \[", training)
        of_files = (self.saved, self._last_record()[1], *self._own_partial())
        return max(*of_files, *map(int, on_the_bar[-1:]))

    def left(self, place: Path, name: str) -> bool:
        """Whether a temporary name that is this process' stands in ``place``."""
        return any(place.glob(f"{name}.partial-{self.process.pid}-*@{platform.node()}"))

    def is_saving(self) -> bool:
        return any(number > self.saved for number in self._own_partial())

    def is_pruning(self) -> bool:
        return any(number <= self.saved for number in self._own_partial())

    def is_validating(self) -> bool:
        """Whether the last record is the training's, at a step where a validation is due."""
        kind, step = self._last_record()
        return step > self.saved_before and kind == "train" and step % VALIDATE_EVERY == 0

    def look(self) -> bool:
        """Take in what is on the terminal; tell whether the process goes on."""
        with suppress(OSError):  # nothing new, or nobody writes any more
            self.shown += os.read(self._terminal, 1 << 16).decode(errors="replace")
        if self.training_since is None and _TRAINS in self.shown:
            self.training_since = time.monotonic()
        return self.process.poll() is None

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Go on looking until the time has come, or there are enough new checkpoints."""
        enough = self.saved_before + MOST_CHECKPOINTS * SAVE_EVERY
        while self.look() and not condition() and self.saved <= enough:
            assert time.monotonic() - self.began < PATIENCE
            time.sleep(0.001)

    def kill(self) -> tuple[float, float]:
        """Kill it; give the seconds since its start, and since the newest checkpoint."""
        now = time.monotonic()
        assert self.process.poll() is None, f"it ended too early:\n{self.shown}"
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL
        self.look()
        lost = 0.0
        if self.training_since is not None:
            lost = now - self.training_since
            if self.saved > self.saved_before:
                newest = self.checkpoints / f"step-{self.saved:08d}"
                lost = min(lost, time.time() - newest.stat().st_mtime)
        return now - self.began, lost

    def hit(self) -> str:
        """What the killed process was doing."""
        if self.left(self.run, "tokenizer"):
            return "learning the tokenizer"
        if self.left(self.run, "encoded"):
            return "encoding the text"
        if self.is_saving():
            return "saving"
        if self.is_pruning():
            return "deleting a checkpoint"
        if self.training_since is None:
            return "starting"
        return "validating" if self.is_validating() else "training"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def _last_record(self) -> tuple[str, int]:
        """Kind and step of the last line of metrics.jsonl that is whole."""
        try:
            last = json.loads((self.run / "metrics.jsonl").read_text().splitlines()[-1])
        except (OSError, IndexError, ValueError):
            return "none", 0
        return str(last["kind"]), int(last["step"])

    def _own_partial(self) -> list[int]:
        return self._steps(rf"step-(\d+)\.partial-{self.process.pid}@.+")

    def _steps(self, pattern: str) -> list[int]:
        paths = self.checkpoints.iterdir() if self.checkpoints.is_dir() else ()
        return [int(m[1]) for path in paths if (m := re.fullmatch(pattern, path.name))]


def wait_to_kill(watched: Watched, aim: str, draws: random.Random) -> None:
    """Return when the time for the kill has come."""
    run, began = watched.run, watched.began
    match aim:
        case "start" | "anywhere":
            delay = draws.uniform(0.0, 2.0 if aim == "start" else 6.0)
            watched.wait_for(lambda: time.monotonic() - began > delay)
        case "tokenizer" | "encoding":
            name = "tokenizer" if aim == "tokenizer" else "encoded"
            watched.wait_for(lambda: watched.left(run, name) or (run / name).exists())
        case "training":
            delay = draws.uniform(0.0, 0.5)
            watched.wait_for(lambda: watched.training_since is not None)
            watched.wait_for(lambda: time.monotonic() - (watched.training_since or 0.0) > delay)
        case "saving":
            saved = watched.saved_before + draws.randrange(MOST_CHECKPOINTS) * SAVE_EVERY
            watched.wait_for(lambda: watched.is_saving() and watched.saved >= saved)
            time.sleep(draws.choice([0.0, draws.uniform(0.0, 0.01)]))
        case "pruning":
            watched.wait_for(watched.is_pruning)
        case "validating":
            watched.wait_for(watched.is_validating)
            time.sleep(draws.uniform(0.0, 0.05))


@pytest.mark.parametrize(
    ("kills", "max_steps"),
    [pytest.param(4, 240, id="4"), pytest.param(50, 3200, id="50")],
)
@pytest.mark.long
def test_a_training_killed_at_random_ends_as_one_left_alone(
    tmp_path: Path, kills: int, max_steps: int
) -> None:
    config = tmp_path / "killed.yaml"
    data = write_copied(config.parent / "text", 20, 6, train_lines=3000, test_lines=60)
    config.write_text(EXPERIMENT.replace("DATA", data) + f"  max_steps: {max_steps}\n")
    draws = random.Random(1)
    aims = [*FIRST_AIMS, *draws.choices(list(AIMS), list(AIMS.values()), k=kills)][:kills]
    directory = tmp_path / "run"
    command: list[str | Path] = ["train", config, "--run-dir", directory]
    killed = []
    for number, aim in enumerate(aims, start=1):
        watched = Watched(command, directory)
        try:
            wait_to_kill(watched, aim, draws)
            seconds, seconds_lost = watched.kill()
        finally:
            watched.close()
        lost = watched.reached - watched.saved
        killed.append(
            Kill(
                number,
                aim,
                round(seconds, 2),
                watched.hit(),
                watched.saved_before,
                watched.saved,
                watched.reached,
                lost,
                round(seconds_lost, 2),
            )
        )
        print(json.dumps(asdict(killed[-1])), flush=True)
        assert watched.saved >= watched.saved_before
        assert 0 <= lost <= SAVE_EVERY
    finished = run(*command)
    assert finished.code == 0, finished.err
    alone = tmp_path / "alone"
    assert run("train", config, "--run-dir", alone).code == 0
    assert_same_run(directory, alone)
    print(json.dumps(summary(killed)), flush=True)


def summary(killed: list[Kill]) -> dict[str, object]:
    lost = [kill.steps_lost for kill in killed]
    seconds = [kill.seconds_lost for kill in killed]
    hits = [kill.hit for kill in killed]
    return {
        "faults_tried_and_survived": len(killed),  # or we would not be here
        "hit": {hit: hits.count(hit) for hit in dict.fromkeys(hits)},
        "steps_lost_mean": round(sum(lost) / len(lost), 1),
        "steps_lost_max": max(lost),
        "training_seconds_lost_mean": round(sum(seconds) / len(seconds), 2),
        "training_seconds_lost_max": max(seconds),
    }

"""The tasks of a sweep: what each runs, and in which order.

A task's name is the path of its result in the sweep's directory. It is made in an attempt
directory, which becomes the result by one rename. There are three kinds: prepare data that several
runs share, train a run, score a run on a split.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.sweeps.directory import SweepDirectory, data_name, run_name, scores_name
from transformer_cli.sweeps.points import Point

TRANSLATIONS, SCORES = "translations.txt", "scores.json"
"""The files of a scored run."""


@dataclass(frozen=True)
class Task:
    """Something to be done once."""

    name: str
    arguments: tuple[str, ...]
    """Those of transformer-cli, but for where the result goes."""
    destination: tuple[str, str] = ("--run-dir", "")
    """The option that says where to, and the file in the attempt directory."""
    stdout: str | None = None
    """The file in the attempt directory that stdout goes to."""
    data: str | None = None
    """The task whose tokenizers and encoded text a new run starts from."""
    point: str = ""
    seed: int = 0

    @property
    def trains(self) -> bool:
        """Whether it trains a run."""
        return self.data is not None

    @property
    def makes_data(self) -> bool:
        """Whether it prepares data, for all runs whose settings agree on it."""
        return not self.point

    def command(self, attempt: Path) -> list[str]:
        """Return the arguments of transformer-cli that write to ``attempt``."""
        option, name = self.destination
        return [*self.arguments, option, str(attempt / name) if name else str(attempt)]

    def result(self, sweep: SweepDirectory) -> Path:
        """Return the path of its result."""
        return sweep.path / self.name


def data_task(base: Path, point: Point, config: Config) -> Task:
    """Return the task that prepares the data of a point, and of all with the same settings."""
    shaping = config.model_dump(mode="json", include={"data", "tokenizer", "init"})
    key = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:12]
    return Task(data_name(key), ("vocab", str(base), *_set(point.overrides)))


def train_task(base: Path, point: Point, seed: int, data: str, options: Sequence[str]) -> Task:
    """Return the task that trains a point with a seed."""
    settings = _set([*point.overrides, f"seed={seed}"])
    return Task(
        run_name(point.name, seed),
        ("train", str(base), *settings, *options),
        data=data,
        point=point.name,
        seed=seed,
    )


def score_task(
    sweep: SweepDirectory, point: str, seed: int, split: str, options: Sequence[str]
) -> Task:
    """Return the task that translates a split with a finished run, and scores it."""
    run = sweep.run(point, seed).path
    return Task(
        scores_name(split, point, seed),
        ("evaluate", str(run), "--split", split, "--json", *options),
        destination=("--output", TRANSLATIONS),
        stdout=SCORES,
        point=point,
        seed=seed,
    )


def _set(overrides: Sequence[str]) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]

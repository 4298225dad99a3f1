"""A served run learns from corrections: it grows in a process of low priority."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from transformer_cli.base.errors import RunError
from transformer_cli.base.files import read_json, read_small
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import write_text
from transformer_cli.extensions.growing.growth import next_run
from transformer_cli.extensions.growing.memory import write_memory
from transformer_cli.extensions.serve.corrections import Corrections
from transformer_cli.runs.directory import is_run

_LOWEST = 64 if sys.platform == "win32" else 19  # IDLE_PRIORITY_CLASS


@dataclass
class Learner:
    """Grows a run once it has enough new corrections, and remembers the runs that came of it.

    Attributes:
        directory: RUN/served, which also has the corrections.
        corrections: the corrections that were sent.
        every: how many changed translations start a growth; None: none does.
        chain: the run, then each accepted growth of it; the last one translates.
        seen: how many changes the last growth has seen.
        last: what came of the last growth, in words.
    """

    directory: Path
    corrections: Corrections
    every: int | None
    chain: list[Path] = field(default_factory=list)
    seen: int = 0
    last: str = ""
    is_growing: bool = False

    def __post_init__(self) -> None:
        self.chain = [self.directory.parent]
        match read_json(self._state):
            case {"grown": list(names), "seen": int(self.seen), "last": str(self.last)}:
                paths = [self.directory.parent.with_name(str(name)) for name in names]
                self.chain += [path for path in paths if is_run(path)]

    @property
    def _state(self) -> Path:
        return self.directory / "learning.json"

    @property
    def facts(self) -> dict[str, Any]:
        """What the server tells about learning."""
        waiting = self.corrections.count - self.seen
        state = "growing" if self.is_growing else "waiting" if self.every else "off"
        about = {"run": self.chain[-1].name, "corrections": len(self.corrections.chosen)}
        about["grown"] = len(self.chain) - 1
        return about | {"new": waiting, "every": self.every, "state": state, "last": self.last}

    @property
    def is_due(self) -> bool:
        """Whether there are enough new corrections, and no growth is under way."""
        new = self.corrections.count - self.seen
        return self.every is not None and new >= self.every and not self.is_growing

    async def grow(self, options: Sequence[str], take_over: Callable[[Path], object]) -> None:
        """Grow the run; if the growth is accepted, call ``take_over`` with it, in a thread."""
        self.is_growing, seen = True, self.corrections.count
        old = self.chain[-1]
        new = next_run(old)
        while new.exists():
            new = next_run(new)
        try:
            log(f"{old}: growing with {len(self.corrections.chosen):,} corrections")
            if (problem := await self._train(old, new, options)) is None:
                await asyncio.to_thread(take_over, new)
                self.chain.append(new)
            self.seen = seen
            self._tell(problem or f"{new.name} was accepted and translates from now on")
        finally:
            self.is_growing = False

    def roll_back(self) -> Path:
        """Leave out the last growth; return the run before it, which translates from now on.

        Raises:
            RunError: there is no growth to leave out.
        """
        if len(self.chain) == 1:
            raise RunError(f"{self.chain[0].name}: has no growth to leave out")
        left = self.chain.pop()
        self._tell(f"{left.name} was left out; {self.chain[-1].name} translates from now on")
        return self.chain[-1]

    def _tell(self, what: str) -> None:
        self.last = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {what}"
        log(self.last)
        grown = [path.name for path in self.chain[1:]]
        state = {"grown": grown, "seen": self.seen, "last": self.last}
        write_text(self._state, json.dumps(state, indent=1) + "\n")

    async def _train(self, old: Path, new: Path, options: Sequence[str]) -> str | None:
        """Train ``new`` in a process; return why it was not accepted, or None."""
        text, printed = self.directory / "learning.tsv", self.directory / "learning.log"
        write_memory(text, dict(self.corrections.chosen))
        command = ["train", "--from", old, "--add", text, "--run-dir", new, *options]
        with printed.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "transformer_cli", *map(str, command)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            psutil.Process(process.pid).nice(_LOWEST)
            if await process.wait() == 0:
                return None
        finally:
            if process.returncode is None:
                process.kill()
        lines = read_small(printed).decode(errors="replace").splitlines() or ["no message"]
        return lines[-1]

"""A run that is served, which learns: it grows with corrections in a process of low priority."""

import asyncio
import gc
import json
import shutil
import sys
from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any

import psutil

from transformer_cli.base.errors import RunError, TransformerCliError
from transformer_cli.base.files import check_no_links, read_json, read_small
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import write_text
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.growing.growth import RECORD, next_run
from transformer_cli.extensions.growing.memory import FILE, read_memory, write_memory
from transformer_cli.extensions.serve.corrections import Corrections
from transformer_cli.extensions.serve.model import Model, ModelQueue
from transformer_cli.runs.directory import RunDirectory, is_run, lock_directory

_LOWEST = 64 if sys.platform == "win32" else 19  # priority; 64 is IDLE_PRIORITY_CLASS


class Served:
    """A served run.

    Attributes:
        languages: its source and target language.
        corrections: what it was sent, in RUN/served.
        chain: the run, then each accepted growth of it; the last one translates.
        learned: the corrections that the last growth was given.
        last: what the last growth led to, in words.
        queue: the requests that wait for the last run of the chain.
    """

    def __init__(
        self, options: TranslateOptions, languages: tuple[str, str], learn: int | None
    ) -> None:
        """Load a run; ``learn`` newly corrected texts start a growth, or None."""
        self.options, self.learn = options, learn
        self.languages = base_language(languages[0]), base_language(languages[1])
        self._directory = options.run / "served"
        self.corrections = Corrections(self._directory / "suggestions.tmx", languages)
        self.chain, self.learned, self.last = [options.run], dict[str, str](), ""
        match read_json(self._directory / "learning.json"):
            case {"grown": list(grown), "learned": dict(learned), "last": str(last)}:
                paths = [options.run.parent / Path(str(name)).name for name in grown]
                self.chain += [path for path in paths if is_run(path)]
                self.learned, self.last = learned, last
        self.queue = ModelQueue(self._load(self.chain[-1]))
        self._turn = asyncio.Lock()
        self._growth: asyncio.Task[None] | None = None

    def _load(self, run: Path) -> Model:
        corrections = ChainMap(self.corrections.chosen, read_memory(run / FILE))
        return Model(replace(self.options, run=run), corrections)

    async def _translate_with(self, run: Path) -> None:
        self.queue.model = await asyncio.to_thread(self._load, run)
        freeze_objects()

    @property
    def facts(self) -> dict[str, Any]:
        """What the server tells about learning."""
        sent = dict(self.corrections.chosen)
        return {
            "run": self.chain[-1].name,
            "grown": len(self.chain) - 1,
            "corrections": len(sent),
            "new": sum(self.learned.get(src) != tgt for src, tgt in sent.items()),
            "learn": self.learn,
            "is_growing": self.is_growing,
            "last": self.last,
        }

    def grow_if_due(self) -> None:
        """Start to grow the run if there are enough new corrections, and it is not growing yet."""
        if self.learn and not self.is_growing and self.facts["new"] >= self.learn:
            self._growth = asyncio.create_task(self._grow())

    async def stop_growing(self) -> None:
        """End the process that trains."""
        if self._growth is not None:
            self._growth.cancel()
            await asyncio.wait([self._growth])

    @property
    def is_growing(self) -> bool:
        """Whether a growth is being trained or loaded."""
        return self._growth is not None and not self._growth.done()

    async def _grow(self) -> None:
        """Grow the run, and translate with the new run if it is accepted."""
        self.learned = dict(self.corrections.chosen)
        old = new = self.chain[-1]
        while new.exists():
            new = next_run(new)
        try:
            problem = await self._train(old, new)
            async with self._turn:
                if self.chain[-1] is not old:
                    problem = f"{old.name} was left out meanwhile"
                if problem is None:
                    await self._translate_with(new)
                    self.chain.append(new)
            self._tell(problem or f"{new.name} was accepted, and translates from now on")
        except (OSError, TransformerCliError) as error:
            self._tell(str(error))
        except Exception as error:  # the old run still translates
            self._tell(f"{type(error).__name__}: {error}")
            raise

    async def roll_back(self) -> None:
        """Translate with the run before the last growth; raise RunError if there is none."""
        async with self._turn:
            if len(self.chain) == 1:
                raise RunError(f"{self.chain[0].name}: has not grown")
            await self._translate_with(self.chain[-2])
            left = self.chain.pop()
        self._tell(f"{left.name} was left out; {self.chain[-1].name} translates from now on")

    def _tell(self, what: str) -> None:
        self.last = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {what}"
        log(self.last)
        grown = [path.name for path in self.chain[1:]]
        state = {"grown": grown, "learned": self.learned, "last": self.last}
        write_text(self._directory / "learning.json", json.dumps(state, indent=1) + "\n")

    async def _train(self, old: Path, new: Path) -> str | None:
        """Train ``new`` in a process; return why it should not translate, or None.

        A finished run that should not is deleted, so that attempts do not fill the disk.
        """
        text, printed = self._directory / "learning.tsv", self._directory / "learning.log"
        write_memory(text, self.learned)
        log(f"{old}: grows with {len(self.learned):,} corrections")
        with printed.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "transformer_cli", "train", "--from", old, "--add", text),
                *("--run-dir", new, "--device", self.options.device),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is for the server
            )
        try:
            psutil.Process(process.pid).nice(_LOWEST)
            if (code := await process.wait()) == 0:
                if weakness := find_weakness(new):
                    await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
                return weakness
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
                shutil.rmtree(new, ignore_errors=True)
        said = read_small(printed).decode(errors="replace").strip().rpartition("\n")[2]
        for path in new.parent.glob(f"{escape(new.name)}.rejected*"):
            if f"renamed to {path.name}: " in said:  # others may be somebody's
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        return said if code > 0 else f"signal {-code} ended the training"


def freeze_objects() -> None:
    """Keep later garbage collections from visiting all objects: 0.4 ms less for each request."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def find_weakness(run: Path) -> str | None:
    """Return why a grown run should not translate, or None if it is clearly better on new text."""
    match read_json(run / RECORD):
        case {"new_text": {"before": old, "after": new, "half_width": margin}}:
            change = f"BLEU on new text {old:.1f} → {new:.1f} ± {margin:.1f}"
            return None if new - old > margin else f"{run.name}: has learned too little: {change}"
    return f"{run.name}: too few good corrections to learn from; they only apply to their texts"


@contextmanager
def open_run(options: TranslateOptions, learn: int | None) -> Iterator[Served]:
    """Load a run, and lock the directory of its corrections.

    Raises:
        RunError, CheckpointError: the run is damaged, or another server uses it.
    """
    directory = RunDirectory(options.run)
    engine = directory.only_engine
    data = (engine.load().load_settings(directory) if engine else directory.load_config()).data
    if engine and learn:
        raise RunError(f"{options.run}: an exported model cannot learn; leave out --learn")
    check_no_links(options.run, ["served"])
    with lock_directory(options.run / "served"):
        yield Served(options, (data.src_lang, data.tgt_lang), learn)

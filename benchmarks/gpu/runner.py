"""Runs each part in a process of its own, and keeps what it measured whatever becomes of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.environments import ROOT
from benchmarks.gpu.parts import Part, Row

_ERROR_LINES = 12


@dataclass(frozen=True)
class Outcome:
    """What a part measured: a line of results.jsonl.

    Attributes:
        name: the part's.
        ok: whether it came to its end.
        seconds: that its process took.
        rows: measured until then.
        note: the error's last lines, or why the part was skipped.
    """

    name: str
    ok: bool
    seconds: float
    rows: list[Row] = field(default_factory=list)
    note: str = ""


def run_parts(
    parts: Iterable[Part], command: Sequence[str], on_gpu: bool, total: float, out: Path
) -> Iterator[Outcome]:
    """Run parts one after the other; write results.jsonl and log.txt, and yield each outcome.

    Args:
        parts: in this order.
        command: is given ``--part NAME --rows FILE``, and appends a JSON object a row to the file.
        on_gpu: whether parts that need a GPU are run.
        total: seconds for all of them; those that are not reached are noted.
        out: directory of the files, which exists.
    """
    ends = time.monotonic() + total
    with (out / "results.jsonl").open("w", encoding="utf-8") as results:
        for part in parts:
            if part.needs_gpu and not on_gpu:
                outcome = Outcome(part.name, False, 0.0, note="skipped: needs a GPU")
            else:
                limit = min(part.limit, ends - time.monotonic())
                outcome = _run(part, command, limit, out / "log.txt")
            results.write(json.dumps(asdict(outcome)) + "\n")
            results.flush()
            yield outcome


def _run(part: Part, command: Sequence[str], limit: float, log: Path) -> Outcome:
    if limit < 1.0:
        return Outcome(part.name, False, 0.0, note="not reached: the time for all parts was over")
    start = time.monotonic()
    with TemporaryDirectory() as directory, log.open("ab") as output:
        rows = Path(directory) / "rows"
        output.write(f"\n===== {part.name} =====\n".encode())
        output.flush()
        begins = output.tell()
        note = _wait([*command, "--part", part.name, "--rows", str(rows)], output.fileno(), limit)
        seconds = time.monotonic() - start
        measured = [json.loads(line) for line in _whole_lines(rows)]
    if note:
        with log.open("rb") as text:
            text.seek(begins)
            said = text.read().decode(errors="replace").split("\n")
        note = "\n".join([*[line for line in said if line.strip()][-_ERROR_LINES:], note])
    return Outcome(part.name, not note, round(seconds, 2), measured, note)


def _wait(command: Sequence[str], output: int, limit: float) -> str:
    """Run a command with all that it starts; return what went wrong, or nothing."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
    )
    try:
        status = process.wait(limit)
        return f"ended with status {status}" if status else ""
    except subprocess.TimeoutExpired:
        return f"killed after {limit:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _whole_lines(path: Path) -> list[str]:
    """Return a file's lines, but for one that was cut short."""
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def child_command(device: str, small: bool, work: Path) -> list[str]:
    """Return the command of the process that measures a part."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", device, "--work", str(work)]
    return [*command, *(["--small"] if small else [])]

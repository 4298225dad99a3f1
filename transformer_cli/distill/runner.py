"""Run the stages of a distillation, one after the other."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.child import APART, CHILD, STOP, environment
from transformer_cli.data.corpus import stream_lines
from transformer_cli.distill.directory import DistillDirectory, StageRecord
from transformer_cli.distill.plan import DistillPlan
from transformer_cli.distill.stages import Stage
from transformer_cli.errors import TransformerCliError
from transformer_cli.files import whole_file

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Failure:
    """A stage that was not finished."""

    stage: Stage
    code: int
    """Its process' exit code; negative: the signal that killed it."""


def run_stages(
    plan: DistillPlan, should_stop: Callable[[], bool], say: Callable[[str], None]
) -> Failure | None:
    """Run the stages that are not done, until all are, one fails, or a stop is requested.

    Args:
        plan: the stages.
        should_stop: asked between stages, and while commands run.
        say: takes a line about each stage.

    Raises:
        TransformerCliError: a text, a run or a record is missing or damaged, or cannot be written.
    """
    plan.check()
    for stage in plan.stages():
        if should_stop():
            return None
        if stage.kind == "translate":
            plan.check()  # tokenizers of teachers that were trained just now
        inputs = stage.inputs()
        known = plan.directory.stage(stage.name)
        if known is not None and known.inputs == inputs and plan.directory.is_intact(known):
            continue
        is_new = _begin(plan.directory, stage, inputs, say)
        say(f"{stage.name}: {'started' if is_new else 'going on'}")
        began = time.monotonic()
        if stage.work is not None:
            stage.work()
        code = run_command(stage.command, stage.stdout, should_stop) if stage.command else 0
        if code:
            return Failure(stage, code)
        seconds = time.monotonic() - began if is_new else None
        _finish(plan.directory, stage, inputs, seconds)
        say(f"{stage.name}: done")
    return None


def is_done(directory: DistillDirectory, stage: Stage) -> bool:
    """Return whether a stage need not be run, as far as can be seen now."""
    known = directory.stage(stage.name)
    try:
        return known is not None and known.inputs == stage.inputs() and directory.is_intact(known)
    except (OSError, TransformerCliError):  # what it reads is not there yet
        return False


def _begin(
    directory: DistillDirectory, stage: Stage, inputs: dict[str, str], say: Callable[[str], None]
) -> bool:
    """Record that a stage begins; return False if it goes on from where it was stopped."""
    known = directory.stage(stage.name)
    news = []
    if known is not None:
        reason = _find_change(known, stage, inputs)
        # A training that has ended, and whose files are others now, is gone on with.
        if reason is None or (known.inputs == inputs and stage.kind == "train"):
            return False
        news.append(f"again, as {reason}")
    if earlier := stage.discard():
        news.append(f"the earlier one is now {earlier.as_posix()}")
    if news:
        say(f"{stage.name}: {'; '.join(news)}")
    directory.record(stage.name, StageRecord(inputs=inputs, binding=[*stage.binding]))
    return True


def _find_change(known: StageRecord, stage: Stage, inputs: dict[str, str]) -> str | None:
    """Return why a stage that was begun cannot be gone on with; None: it can."""
    changed = [
        key for key in {**known.inputs, **inputs} if known.inputs.get(key) != inputs.get(key)
    ]
    if changed:
        return f"{', '.join(changed)} changed"
    if known.outputs is not None:
        return "what it has made was changed, or is gone"
    if known.binding != [*stage.binding]:
        return f"it was begun with {' '.join(known.binding)}"
    return None


def _finish(
    directory: DistillDirectory, stage: Stage, inputs: dict[str, str], seconds: float | None
) -> None:
    """Record what a stage has made."""
    rate = None
    if stage.text is not None and seconds:
        rate = sum(1 for _ in stream_lines(stage.text.path)) / seconds
    directory.record(
        stage.name,
        StageRecord(inputs=inputs, outputs=directory.sums(stage.outputs()), lines_per_second=rate),
    )


def run_command(
    arguments: Sequence[str], stdout: Path | None, should_stop: Callable[[], bool]
) -> int:
    """Run a command of transformer-cli, and ask it to end when a stop is requested.

    Args:
        arguments: of transformer-cli.
        stdout: the file that its output becomes if it succeeds; None: it goes to stderr.
        should_stop: asked a few times a second.

    Returns:
        its exit code.
    """
    if stdout is None:
        return _run(arguments, sys.stderr.fileno(), should_stop)
    with suppress(_FailedError), whole_file(stdout) as temporary, temporary.open("wb") as file:
        if code := _run(arguments, file.fileno(), should_stop):
            raise _FailedError  # so that the file does not appear
    return code


class _FailedError(Exception):
    pass


def _run(arguments: Sequence[str], stdout: int, should_stop: Callable[[], bool]) -> int:
    process = subprocess.Popen(
        [*CHILD, *arguments],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=stdout,
        # Ctrl-C is for this process, which stops the other itself.
        **APART,
    )
    is_told = False
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
        if should_stop() and not is_told:
            is_told = True
            with suppress(ProcessLookupError):
                process.send_signal(STOP)

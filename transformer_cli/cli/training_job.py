"""What ``train`` runs after its quick checks; importing this module imports torch."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from transformer_cli.cli.display import line_bar, log, pair_bar, table, warn
from transformer_cli.cli.options import open_device, say_put_back
from transformer_cli.cli.signals import stop_requests
from transformer_cli.cli.training_display import TrainingDisplay
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.metric_choice import metrics_of_training
from transformer_cli.evaluation.scoring import build_validator
from transformer_cli.metrics import METRICS, Metrics
from transformer_cli.model.device import (
    bound_kernel_caches,
    choose_precision,
    use_threads,
)
from transformer_cli.ranks import Ranks
from transformer_cli.runs.checkpoint_directory import newest_step
from transformer_cli.runs.contents import PREVIOUS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import read_records
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.training.curves import draw_curves
from transformer_cli.training.memory import SMALLEST, check_memory
from transformer_cli.training.precision import choose_training_precision
from transformer_cli.training.session import Record, Session
from transformer_cli.training.setup import (
    Callbacks,
    TrainRequest,
    build_trainer,
    open_data,
    open_data_dry,
)
from transformer_cli.training.summary import summarize_training
from transformer_cli.training.trainer import StepResult

REPORTERS = Callbacks(line_bar, warn, pair_bar, log, say_put_back)


class TrainingJob(NamedTuple):
    """A training request on this process' device, with its ranks connected."""

    request: TrainRequest
    device: torch.device
    precision: PrecisionName
    ranks: Ranks
    metrics: Metrics
    select: str
    """What the best checkpoint is chosen by."""
    notes: Sequence[str]
    """On how it is scored, to be logged once the training is sure to begin."""

    def choose_precision(self) -> torch.dtype:
        """Return the compute dtype; to measure 'auto' takes a second, so ask once data is ready."""
        records = () if self.request.overwrite else read_records(self.request.run.metrics)
        return choose_training_precision(self.precision, self.device, self.ranks, records, log)

    def load_previous_config(self) -> Config | None:
        """Return the settings of the run that is resumed; None for a new run."""
        run = self.request.run
        resumes = self.ranks.is_main and not self.request.overwrite and run.config.is_file()
        return run.load_config() if resumes else None


class Outcome(NamedTuple):
    """How a training ended."""

    text: str
    """For stdout."""
    step: int
    signal: int | None = None
    """The signal that stopped it before it was finished."""


@contextmanager
def open_job(
    request: TrainRequest, device: DeviceName, precision: PrecisionName, threads: int | None
) -> Iterator[TrainingJob]:
    """Choose the device, check its memory and connect the ranks while the block runs."""
    use_threads(threads)
    bound_kernel_caches()
    ranks = Ranks.from_env()
    torch_device = open_device(device, ranks)
    check_memory(request.config, SMALLEST, torch_device, ranks)  # before any text is read
    choose_precision(precision, torch_device)  # refuses what the device cannot
    begun = None if request.overwrite else request.run
    notes: list[str] = []
    judged_by = metrics_of_training(request.config, begun, notes.append)
    with ranks.init(torch_device) as ranks:
        yield TrainingJob(request, torch_device, precision, ranks, *judged_by, notes)


def preview_training(job: TrainingJob) -> Outcome:
    """Return the summary and a forecast, without training."""
    request, device, _, ranks, metrics, select, notes = job
    config, run = request.config, request.run
    previous = job.load_previous_config()
    with open_data_dry(request, ranks, REPORTERS) as data:
        trainer = build_trainer(config, data, run, device, job.choose_precision(), ranks)
        unscored = build_validator(config, data, trainer, metrics, select).num_unscored
        trainer.step = 0 if request.overwrite else newest_step(run.checkpoints)
        rows = summarize_training(config, data, trainer, unscored, run, previous, True)
        for line in notes:
            log(line)
        return Outcome("\n".join(table(rows)), trainer.step)


def run_training(job: TrainingJob) -> Outcome:
    """Train from the last checkpoint to the end, or until a signal."""
    request, device, _, ranks, metrics, select, notes = job
    config, run = request.config, request.run
    previous = job.load_previous_config()
    with open_data(request, ranks, REPORTERS) as data:
        trainer = build_trainer(config, data, run, device, job.choose_precision(), ranks)
        validator = build_validator(config, data, trainer, metrics, select)
        session = Session.open(config, run, trainer, fingerprint(run.tokenizer), validator)
        unscored = validator.num_unscored
        summary = table(summarize_training(config, data, trainer, unscored, run, previous))
        for line in (*notes, *summary):
            log(line)
        with stop_requests() as should_stop:
            _log_start(session, previous not in (None, config))
            _run_session(session, should_stop)
            if ranks.is_main:
                _warn_of_previous(run)
                _draw(run, select)
            ranks.barrier()  # when the first process ends, torchrun may end the others
    if session.stopped and not session.is_finished:
        return Outcome("", trainer.step, should_stop.signal or signal.SIGTERM)
    return Outcome(_describe_end(session, select), trainer.step)


def _log_start(session: Session, is_changed: bool) -> None:
    for message in session.damaged_checkpoints:
        log(message)
    step = session.trainer.step
    if session.is_finished:
        log(f"nothing left to train: {step} steps are done")
        if is_changed:
            log(f"{session.run.config}: has the changed settings, for commands that read the run")
    elif step:
        log(f"resuming from step {step}")


def _run_session(session: Session, should_stop: Callable[[], bool]) -> None:
    """Train, with a progress bar on a terminal and a line for each record."""
    with TrainingDisplay(session.trainer.total_steps, session.trainer.step) as display:
        for event in session.events(should_stop):
            match event:
                case StepResult():
                    display.show_step(event)
                case Record():
                    display.show_record(event)


def _warn_of_previous(run: RunDirectory) -> None:
    previous = run.path / PREVIOUS
    if previous.is_dir():
        warn(str(previous), "not deleted, as files in it are not transformer-cli's; do it yourself")


def _draw(run: RunDirectory, select: str) -> None:
    try:
        draw_curves(run.metrics, run.curves, str(run.path), select)
    except Exception as error:  # a training is no worse for lacking them
        warn(str(run.curves), f"not drawn: {' '.join(str(error).split()) or type(error).__name__}")


def _describe_end(session: Session, select: str) -> str:
    state = session.train_state
    text = f"{session.run.path}: trained {session.trainer.step} steps in {state.seconds:.0f} s"
    if state.best_step is not None:
        name, score = METRICS[select].label, abs(state.best_rank)
        text += f"; best validation {name} {score:.2f} at step {state.best_step}"
    return text

"""Set a training up: prepare its data under the run's lock, and build its trainer."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch

from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.data.streamed import PairProgress
from transformer_cli.model.transformer import build_model, load_weights
from transformer_cli.ranks import Ranks
from transformer_cli.runs.checkpoint_directory import list_checkpoints
from transformer_cli.runs.corpus_location import record_corpus_directory
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initial_weights import check_init, load_init_weights
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.runs.lock import lock_run
from transformer_cli.runs.overwrite import finish_on_exit, undo_beginning
from transformer_cli.runs.resuming import check_resumable, is_data_outdated
from transformer_cli.text.lines import ProgressBar
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.memory import check_memory
from transformer_cli.training.preparation import (
    PreparedData,
    build_bpe_dropout,
    find_prepared_data,
    open_prepared_data,
    prepare_data,
    select_training_pairs,
)
from transformer_cli.training.sources import has_sources, prepare_sources, reads_sources
from transformer_cli.training.texts import Texts, Warn, audit_texts
from transformer_cli.training.trainer import Trainer


class TrainRequest(NamedTuple):
    """What to train, and where."""

    config: Config
    origins: Origins
    run: RunDirectory
    overwrite: bool
    """Whether to discard an earlier run."""
    allow_suspect_data: bool


class Callbacks(NamedTuple):
    """Callbacks that tell the user what happens while data is prepared."""

    progress: ProgressBar
    warn: Warn
    pairs: PairProgress
    log: Callable[[str], object]
    restored: Callable[[Path], None]
    """Called with the run directory when the previous run was restored."""


@contextmanager
def open_data(request: TrainRequest, ranks: Ranks, report: Callbacks) -> Iterator[PreparedData]:
    """Yield the prepared data; on the main process, hold the run's lock meanwhile.

    The main process prepares what is missing, and the others read it.
    """
    config, _, run, overwrite, _ = request
    if not ranks.is_main:
        ranks.barrier()
        yield open_prepared_data(config, run, report.progress)
        return
    check_init(config, run, overwrite)
    # Of kind corpus, there is no text before the sources are read into the run.
    texts = None if reads_sources(config.data) else _audit_texts(request, run, report)
    # With several ranks, others may still be reading, and torchrun may restart them.
    finishing = finish_on_exit(run.path, report.restored) if ranks.size == 1 else nullcontext()
    existed = run.path.is_dir()
    with lock_run(run), finishing:
        with undo_beginning(run.path, existed):
            initialize_run(run, config, overwrite, request.origins)
            record_corpus_directory(run, config.data)
            if texts is None:
                prepare_sources(config.data, run, report.pairs, report.log)
                texts = _audit_texts(request, run, report)
            data = prepare_data(config, texts, run, report.progress)
        ranks.barrier()
        yield data


@contextmanager
def open_data_dry(request: TrainRequest, ranks: Ranks, report: Callbacks) -> Iterator[PreparedData]:
    """Yield the prepared data, without writing to the run.

    Unless the run's data can be reused as a whole, it is prepared in a temporary directory.
    """
    config, _, run, overwrite, _ = request
    data: PreparedData | None = None
    with ExitStack() as stack:
        directory = run.path
        if ranks.is_main:
            check_init(config, run, overwrite)
            can_resume = run.config.is_file() and not overwrite
            if can_resume:
                check_resumable(run, config)
            can_reuse = can_resume and not is_data_outdated(run, config)
            texts = None
            if (can_reuse and has_sources(config.data, run)) or not reads_sources(config.data):
                texts = _audit_texts(request, run, report)
                if can_reuse:
                    data = find_prepared_data(config, texts, run, report.progress)
            if data is None:
                temporary = tempfile.TemporaryDirectory(prefix="transformer-cli-")
                directory = Path(stack.enter_context(temporary))
                trial = RunDirectory(directory)
                prepare_sources(config.data, trial, report.pairs, report.log)
                if texts is None or reads_sources(config.data):
                    texts = _audit_texts(request, trial, report)
                data = prepare_data(config, texts, trial, report.progress)
        ranks.barrier()  # preparing may take hours, and a broadcast times out after minutes
        directory = Path(ranks.broadcast(str(directory)))
        yield data or open_prepared_data(config, RunDirectory(directory), report.progress)
        ranks.barrier()  # before the temporary directory is removed


def _audit_texts(request: TrainRequest, run: RunDirectory, report: Callbacks) -> Texts:
    return audit_texts(
        request.config.data, run, request.overwrite, request.allow_suspect_data, report.warn
    )


def build_trainer(
    config: Config,
    data: PreparedData,
    run: RunDirectory,
    device: torch.device,
    precision: torch.dtype,
    ranks: Ranks,
) -> Trainer:
    """Build the model and its trainer, at step 0; a new run starts from the weights of ``init``.

    Raises:
        ConfigError: the model does not fit into memory.
        CorpusError: all training pairs are too long.
    """
    check_memory(config, data.vocab_sizes, device, ranks)
    pairs = select_training_pairs(config, data.train, data.mix)
    model = build_model(config.model, *data.vocab_sizes, PAD_ID, config.seed).to(device)
    if config.init is not None and not list_checkpoints(run.checkpoints):
        load_weights(model, load_init_weights(RunDirectory(config.init)))
    bpe_dropout = build_bpe_dropout(config, data.tokenizers)
    return Trainer(model, pairs, config, precision, bpe_dropout, ranks)

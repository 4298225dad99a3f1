"""The summary before training, and the table about both languages that ``vocab`` prints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

import torch

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs.checkpoint import TrainingState
from transformer_cli.runs.metrics_log import describe_environment, last_session
from transformer_cli.text.protocol import UNK_ID
from transformer_cli.training.preparation import PreparedData, TrainRequest
from transformer_cli.training.session import Observer, ValidationFunction
from transformer_cli.training.trainer import Trainer

Row = tuple[str, str]  # a label and a text; a row with an empty label continues the one above


@dataclass(frozen=True)
class PlannedTraining:
    """Training that is about to begin, as the summary and the observers see it."""

    request: TrainRequest
    data: PreparedData
    trainer: Trainer
    validator: ValidationFunction
    observers: Sequence[Observer]
    previous: Config | None  # the earlier settings of a resumed run
    state: TrainingState | None  # the state that a resumed run starts from

    def adapted_by(self, observer: Observer) -> "PlannedTraining":
        """Return the training with the settings that an observer adapts."""
        self.trainer.use(training := observer.adapt(self))
        config = self.request.config.model_copy(update={"training": training})
        return replace(self, request=replace(self.request, config=config))


def summarize_training(planned: PlannedTraining) -> Iterator[Row]:
    """Yield rows of the summary, which ends with those of observers and the run directory."""
    config, trainer = planned.request.config, planned.trainer
    yield from _summarize_data(planned)
    yield from _summarize_model(config, planned.data, trainer)
    if planned.previous is not None:
        yield from _list_changes(planned, planned.previous)
    for observer in planned.observers:
        yield from observer.rows(planned)
    yield "run", str(planned.request.run.path)


def _summarize_data(planned: PlannedTraining) -> Iterator[Row]:
    data, num_unscored = planned.data, planned.validator.num_unscored
    texts, max_length = data.texts, planned.request.config.training.max_length
    num_pairs, blank = data.pairs.num_pairs, texts.train.stats.blank
    yield (
        "text",
        f"{num_pairs:,} pairs to train on (left out: {blank:,} with a blank side, "
        f"{len(data.train) - num_pairs:,} over {max_length:,} tokens)",
    )
    too_long = f"; {num_unscored:,} are too long for the validation loss" if num_unscored else ""
    yield (
        "",
        f"{len(data.val):,} to validate on (left out: {texts.blank_in_val:,} with a blank side)"
        + too_long,
    )
    yield from data.pairs.rows()
    src, tgt = planned.trainer.epochs.tokens
    yield "an epoch", f"{src:,} source and {tgt:,} target tokens"


def _summarize_model(config: Config, data: PreparedData, trainer: Trainer) -> Iterator[Row]:
    src_size, tgt_size = data.vocab_sizes
    yield "vocabularies", f"{src_size:,} (source) and {tgt_size:,} (target)"
    trained = count_parameters(trainer.model, trained_only=True)
    frozen = f"; {trained:,} trained (frozen: {', '.join(config.training.freeze)})"
    total = f"{count_parameters(trainer.model):,}"
    yield "parameters", total + (frozen if config.training.freeze else "")
    done = f"; {trainer.step:,} are done" if trainer.step else ""
    epochs, most = config.training.epochs, config.training.max_steps
    end = ""
    if most is not None and most > trainer.total_steps:  # otherwise a user may expect more steps
        end = f"; training.epochs {epochs} ends training before training.max_steps {most:,}"
    yield "steps", f"{trainer.total_steps:,}, {trainer.steps_per_epoch:,} an epoch{end}{done}"
    per_step = trainer.batches_per_step
    yield (
        "a step",
        f"{per_step:,} {'batch' if per_step == 1 else 'batches'} of at most "
        f"{config.training.batch_tokens:,} tokens a side",
    )
    device, size = trainer.device, trainer.ranks.size
    count = torch.get_num_threads()
    threads = f", {count} thread{'s' if count > 1 else ''}" if device.type == "cpu" else ""
    processes = f"; {size} processes" if size > 1 else ""
    precision = str(trainer.precision).removeprefix("torch.")
    yield "device", f"{device} in {precision}{threads}{processes}"


def _list_changes(planned: PlannedTraining, previous: Config) -> Iterator[Row]:
    """Yield the changes to settings and environment since the run was last trained."""
    trainer, changed = planned.trainer, differences(previous, planned.request.config)
    if 0 < trainer.step < trainer.total_steps:
        before = last_session(planned.request.run.metrics)
        now = describe_environment(trainer.device, trainer.precision, trainer.ranks.size)
        names = [name for name in now if before and before.get(name) != now[name]]
        changed += [Difference(name, before.get(name), now[name]) for name in names]
    yield from zip(chain(["changed"], repeat("")), map(str, changed), strict=False)


def summarize_sides(config: Config, prepared: PreparedData) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a table about source and target vocabularies and tokens."""
    train, val = prepared.train, prepared.val
    yield "", f"source ({config.data.src_lang})", f"target ({config.data.tgt_lang})"
    src_size, tgt_size = prepared.vocab_sizes
    yield "vocabulary", f"{src_size:,}", f"{tgt_size:,}"
    yield "lines", f"{len(train):,}", f"{len(train):,}"
    yield "tokens", f"{train.record.src_tokens:,}", f"{train.record.tgt_tokens:,}"
    src_unknown, tgt_unknown = (
        f"{(side.ids == UNK_ID).mean():.2%}" if len(side.ids) else "0.00%"
        for side in (val.src, val.tgt)
    )
    yield "unknown in val", src_unknown, tgt_unknown

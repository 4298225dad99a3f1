"""What a training is going to be, for a person to read before it starts."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

import torch

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.data.epochs import EpochSample
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.forecast import Forecast
from transformer_cli.training.preparation import Prepared, Texts
from transformer_cli.training.schedule import rate_jump
from transformer_cli.training.trainer import Trainer

Row = tuple[str, str]
"""What it is, and what there is to say of it; without the first, it belongs to the row above."""


def summary(
    config: Config,
    texts: Texts,
    prepared: Prepared,
    trainer: Trainer,
    sample: EpochSample,
    pairs: int,
    unmeasured: int,
) -> Iterator[Row]:
    """Text, model and steps.

    Args:
        config: the experiment's settings.
        texts: what ``read_texts`` gave.
        prepared: what was made of it.
        trainer: where training stands.
        sample: of its batches.
        pairs: how many are trained on.
        unmeasured: pairs to validate on that are too long to be in the validation loss.
    """
    max_length = config.training.max_length
    yield (
        "text",
        f"{pairs:,} pairs to train on (left out: {texts.blank_in_train:,} with a blank side, "
        f"{len(prepared.train) - pairs:,} over {max_length:,} tokens)",
    )
    too_long = f"; {unmeasured:,} of them too long to be in its loss" if unmeasured else ""
    yield (
        "",
        f"{len(prepared.val):,} to validate on (left out: {texts.blank_in_val:,} with a blank side)"
        + too_long,
    )
    about = "" if sample.is_exact else "about "
    src, tgt = sample.tokens
    padding = (
        f"{1 - count / padded:.0%}"
        for count, padded in zip(sample.tokens, sample.padded_tokens, strict=True)
    )
    yield (
        "an epoch",
        f"{about}{src:,} source and {tgt:,} target tokens, in batches that are "
        f"{' and '.join(padding)} padding",
    )
    tokenizers = prepared.tokenizers
    yield "vocabularies", f"{tokenizers.src.size:,} (source) and {tokenizers.tgt.size:,} (target)"
    counts = parameters(trainer.model)
    parts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    tied = "" if config.model.tying == "none" else " (tied)"
    yield "parameters", f"{sum(counts.values()):,}: {parts}{tied}"
    done = f"; {trainer.step:,} are done" if trainer.step else ""
    yield "steps", f"{trainer.total_steps:,}, {trainer.steps_per_epoch:,} an epoch{done}"
    a_step = trainer.batches_per_step
    yield (
        "a step",
        f"{a_step:,} {'batch' if a_step == 1 else 'batches'} of at most "
        f"{config.training.batch_tokens:,} tokens a side",
    )


def computing(device: torch.device, precision: torch.dtype, ranks: int) -> Row:
    """On what it is computed, and how."""
    count = torch.get_num_threads()
    threads = f", {count} thread{'s' if count > 1 else ''}" if device.type == "cpu" else ""
    processes = f"; {ranks} processes" if ranks > 1 else ""
    return "device", f"{device} in {str(precision).removeprefix('torch.')}{threads}{processes}"


def changes(
    before: Config, now: Config, trainer: Trainer, environment: Sequence[Difference]
) -> Iterator[Row]:
    """What is not as it was when the run was last trained.

    Args:
        before: the run's settings up to now.
        now: those that it goes on with.
        trainer: where training stands.
        environment: what has changed beside settings.
    """
    goes_on = 0 < trainer.step < trainer.total_steps
    changed = [*differences(before, now), *(environment if goes_on else ())]
    yield from zip(chain(["changed"], repeat("")), map(str, changed), strict=False)
    step = trainer.step
    jump = rate_jump(before.training, now.training, trainer.d_model, step, trainer.steps_per_epoch)
    if jump is not None:
        yield (
            "warning",
            f"the learning rate jumps from {jump[0]:.3g} at step {step:,} to {jump[1]:.3g} at step "
            f"{step + 1:,}, as the {now.training.schedule.kind} schedule is stretched to step "
            f"{trainer.total_steps:,}; init begins another run from these weights, with a schedule "
            "of its own",
        )


def expectation(expected: Forecast | None, run: Path) -> Iterator[Row]:
    """What it will take, and where it goes."""
    if expected is not None:
        seconds = duration(expected.seconds)
        if expected.idle_seconds < expected.seconds:
            seconds = (
                f"{duration(expected.idle_seconds)} on an idle machine, {seconds} at the present "
                "load"
            )
        yield (
            "forecast",
            f"about {seconds}, validations not counted, and at least {size(expected.memory)} of "
            "memory",
        )
    yield "run", str(run)


def parameters(model: Transformer) -> dict[str, int]:
    """Number of weights of each part; those that parts share count for the first of them."""
    counts = dict.fromkeys(("embeddings", "encoder", "decoder", "output"), 0)
    for name, weight in model.named_parameters():
        module = name.partition(".")[0]
        part = "embeddings" if module.endswith("_embedding") else module.partition("_")[0]
        counts[part] += weight.numel()
    return counts


def duration(seconds: float) -> str:
    """As people say it of something that is not known to the second."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 90:
        return f"{round(minutes)} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"


def size(count: int) -> str:
    """Bytes in MB or GB, of 1,000."""
    return f"{count / 1e9:.1f} GB" if count >= 999.5e6 else f"{max(1, round(count / 1e6))} MB"

"""Trained runs side by side: the same sentences, their scores, their costs, their settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.config.differences import differing_settings
from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.errors import UsageError
from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.evaluation.scoring import Scores, score
from transformer_cli.evaluation.significance import PairedBootstrap, paired_bootstrap
from transformer_cli.inference.engine import ignore
from transformer_cli.inference.lines import LongLine
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import environment_of_training, read_records
from transformer_cli.text.tokenizer import fingerprint


@dataclass(frozen=True)
class ComparedRun:
    """A run to compare, and the checkpoint that stands for it."""

    name: str
    """As much of the path's end as no other run's path ends in."""
    directory: RunDirectory
    config: Config
    """The run's settings, with the search that it is compared by."""
    checkpoint: Path
    step: int
    """Optimizer steps up to the checkpoint."""
    steps: int
    """Optimizer steps of the whole training, up to now."""
    seconds: float
    """Time of the whole training, up to now."""
    trained_with: dict[str, object] | None
    """Device, precision, versions up to the checkpoint; see ``environment_of_training``."""
    is_finished: bool = True
    """Whether no step and no validation of the training is left."""


@dataclass(frozen=True)
class Comparison:
    """What there is to say about the compared runs, in their order."""

    scores: list[Scores]
    bleu: PairedBootstrap
    bleu_lc: PairedBootstrap | None
    """None: the target language's script has no case."""
    settings: dict[str, list[object]]
    """Those that differ, by dotted key, one value a run; see ``differing_settings``."""


def open_runs(
    paths: Sequence[Path], checkpoint: str, beam_size: int | None = None
) -> list[ComparedRun]:
    """Look at each run, before any long work.

    Args:
        paths: run directories, each another.
        checkpoint: 'best', 'last' or 'average'.
        beam_size: how to search; None: each as its settings say.

    Raises:
        UsageError: a run is named twice.
        RunError, ConfigError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    _check_distinct(paths)
    return [
        _open(name, RunDirectory(path), checkpoint, beam_size)
        for name, path in zip(distinct_names(paths), paths, strict=True)
    ]


def translate(
    run: ComparedRun,
    text: ParallelText,
    computing: ComputeOptions,
    progress: Callable[[int], object] = ignore,
    on_long_line: Callable[[LongLine], object] = ignore,
) -> list[str]:
    """Return a run's translations, one a line.

    Args:
        run: loaded here, and forgotten afterwards.
        text: its source side is translated.
        computing: engine, device and precision.
        progress: called with the number of sentences just translated.
        on_long_line: called with each line too long to be translated as one.

    Raises:
        TokenizerError, CheckpointError: something is missing or damaged.
    """
    translator = load_translator(run.directory, str(run.checkpoint), computing)
    translator = translator.with_search(run.config.decoding.beam_size)
    return translator.translate(
        text.src, progress=progress, on_long_line=on_long_line, tags=text.tags
    )


def compare(
    runs: Sequence[ComparedRun],
    translations: Sequence[Sequence[str]],
    references: Sequence[str],
    metrics: Metrics = USUAL,
) -> Comparison:
    """Score each run, and test its difference from the first one.

    Args:
        runs: at least one.
        translations: each run's, one a sentence.
        references: as many raw reference lines.
        metrics: those of the target language.
    """
    lowercased = metrics.bleu(lowercase=True) if metrics.has_case else None
    return Comparison(
        scores=[score(hypotheses, references, metrics=metrics) for hypotheses in translations],
        bleu=paired_bootstrap(translations, references, metrics.bleu()),
        bleu_lc=paired_bootstrap(translations, references, lowercased) if lowercased else None,
        settings=differing_settings([run.config for run in runs]),
    )


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return as much of each path's end as no other path ends in: its last part, if that will do.

    Args:
        paths: of different directories.
    """
    parts = [path.absolute().parts for path in paths]

    def name(own: tuple[str, ...]) -> str:
        length = 1
        while length < len(own) and [each[-length:] for each in parts].count(own[-length:]) > 1:
            length += 1
        return str(Path(*own[-length:]))

    return [name(own) for own in parts]


def _check_distinct(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UsageError(f"{path} is named twice; name each run once")
        seen.add(path.resolve())


def _open(name: str, run: RunDirectory, which: str, beam_size: int | None) -> ComparedRun:
    run.check_not_hub_model()
    config = run.load_config()
    if beam_size is not None:
        decoding = config.decoding.model_copy(update={"beam_size": beam_size})
        config = config.model_copy(update={"decoding": decoding})
    path = find_checkpoint(run.checkpoints, which)
    tokenizer = fingerprint(run.tokenizer)
    step = Checkpoint.open(path, tokenizer).load_state()["step"]
    last = Checkpoint.open(find_checkpoint(run.checkpoints, "last"), tokenizer).load_state()
    trained_with = environment_of_training(read_records(run.metrics), step)
    return ComparedRun(
        name,
        run,
        config,
        path,
        step,
        last["step"],
        last["seconds"],
        trained_with,
        _is_finished(config.training, last),
    )


def _is_finished(config: TrainingConfig, state: Mapping[str, Any]) -> bool:
    """Return whether a state is the last one, as ``Session.is_finished`` does of an open run."""
    is_trained = (
        state["epoch"] >= config.epochs
        or (config.max_steps is not None and state["step"] >= config.max_steps)
        or (config.patience is not None and state["bad_validations"] >= config.patience)
    )
    return is_trained and not state.get("unvalidated")

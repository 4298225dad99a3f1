"""What ``train`` puts together: text, a trainer, how its model is validated, and a summary."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from transformer_cli.audit.text_audit import TextAudit
from transformer_cli.cli import options
from transformer_cli.cli.display import warn
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.data.store import read_survey
from transformer_cli.evaluation import scoring
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.transformer import build_model
from transformer_cli.model.weights import load_weights
from transformer_cli.ranks import Ranks
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.environment import changed_environment, describe_environment
from transformer_cli.runs.found import corpus_directory, remember_corpus
from transformer_cli.runs.inheritance import check_init, inherited_weights
from transformer_cli.runs.lock import locked
from transformer_cli.runs.records import read_records
from transformer_cli.runs.replacing import settle
from transformer_cli.text.lines import Progress
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training import preparation
from transformer_cli.training.forecast import PROBED, WORTHWHILE, forecast
from transformer_cli.training.memory import check_memory, trial_fits
from transformer_cli.training.preparation import (
    Prepared,
    Texts,
    subword_sampling,
    text_to_train_on,
)
from transformer_cli.training.session import Validation
from transformer_cli.training.summary import Row, changes, computing, expectation, summary
from transformer_cli.training.trainer import Trainer


def prepare(
    settings: Config,
    origins: Origins,
    run: RunDirectory,
    overwrite: bool,
    allow: bool,
    ranks: Ranks,
    held: ExitStack,
    progress: Progress,
) -> tuple[Texts, Prepared]:
    """Have the leading rank make what is not there yet; the others read what it has made.

    Args:
        settings: the experiment's.
        origins: where they come from.
        run: where to.
        overwrite: whether to start anew.
        allow: whether to take text that can only be a mistake.
        ranks: who works on it.
        held: what keeps the run's lock, once the leading rank has it.
        progress: draws a bar.
    """
    if not ranks.is_main:
        ranks.barrier()
        return preparation.open_prepared(settings, run, progress)
    check_init(settings, run, overwrite)
    texts = read_texts(settings, run, overwrite, allow)
    held.enter_context(locked(run))
    if ranks.size == 1:  # others may still be reading, and torchrun may start them again
        held.callback(_settle, run)
    run.prepare(settings, overwrite, origins)
    remember_corpus(run, settings.data)
    prepared = preparation.prepare(settings, texts, run, progress)
    ranks.barrier()
    return texts, prepared


def _settle(run: RunDirectory) -> None:
    """Put an earlier run back if the new one has come to no checkpoint."""
    if settle(run.path):
        options.say_put_back(run.path)


def prepare_dry(
    settings: Config,
    run: RunDirectory,
    overwrite: bool,
    allow: bool,
    ranks: Ranks,
    held: ExitStack,
    progress: Progress,
) -> tuple[Texts, Prepared]:
    """As ``prepare`` does, in a directory that ``held`` removes, unless all is in the run."""
    if not ranks.is_main:
        ranks.barrier()  # what they tell each other has to come within minutes
        (told,) = ranks.map(lambda items: [], [0])
        return preparation.open_prepared(settings, RunDirectory(Path(told)), progress)
    check_init(settings, run, overwrite)
    is_begun = run.config.is_file() and not overwrite
    is_of_use = is_begun and not run.check_resumable(settings)
    texts = read_texts(settings, run, overwrite, allow)
    prepared = preparation.find_prepared(settings, texts, run, progress) if is_of_use else None
    place = run.path
    if prepared is None:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="transformer-cli-")))
        prepared = preparation.prepare(settings, texts, RunDirectory(place), progress)
    ranks.barrier()
    ranks.map(lambda items: [str(place) for _ in items], [0])
    return texts, prepared


def read_texts(settings: Config, run: RunDirectory, overwrite: bool, allow: bool) -> Texts:
    """Check an experiment's texts, and say on stderr what is odd about them.

    Args:
        settings: the experiment's.
        run: a run directory, or none yet.
        overwrite: whether it is to start anew.
        allow: whether to take text that can only be a mistake.
    """
    is_begun = not overwrite and bool(list_checkpoints(run.checkpoints))
    audit = TextAudit(settings.data, allow, is_begun, corpus_directory(run))
    try:
        return preparation.read_texts(settings.data, read_survey(run.encoded), audit)
    finally:
        for note in audit.notes:
            where, _, what = note.partition(": ")
            warn(where, what)


@dataclass
class Setup:
    """A training that is ready to begin, or to go on once its state is loaded.

    Args:
        config: the experiment's settings.
        texts: what ``read_texts`` gave.
        prepared: what was made of it.
        run: where it is to be found.
        device: where to compute.
        precision: type of the matrix products.
        ranks: who shares the work.
        before: the settings of the run that goes on, as they were up to now.
    """

    config: Config
    texts: Texts
    prepared: Prepared
    run: RunDirectory
    device: torch.device
    precision: torch.dtype
    ranks: Ranks
    before: Config | None = None

    def __post_init__(self) -> None:
        config, tokenizers, val = self.config, self.prepared.tokenizers, self.prepared.val
        sizes = tokenizers.src.size, tokenizers.tgt.size
        check_memory(config, sizes, self.device, self.ranks)
        self._text = text_to_train_on(config, self.prepared.train)
        model = build_model(config.model, *sizes, PAD_ID, config.seed).to(self.device)
        if config.init is not None and not list_checkpoints(self.run.checkpoints):
            load_weights(model, inherited_weights(RunDirectory(config.init)))
        sampling = subword_sampling(config, tokenizers)
        self.trainer = Trainer(model, self._text, config, self.precision, sampling, self.ranks)
        engine = TorchEngine(self.trainer.eval_model, self.precision)
        translator = TextTranslator(engine, tokenizers, config, config.decoding)
        self._translator = translator.with_search(beam_size=1)
        self._unmeasured = len(val) - len(scoring.find_measurable_pairs(translator, val))
        self._translator.check_lengths(val.src.lengths, "validation source sentence")
        self._translator.check_lengths(val.tgt.lengths, "validation target sentence")

    def validate(self, should_stop: Callable[[], bool]) -> Validation | None:
        """Evaluate the model on the validation split; return None if asked to stop."""
        self.trainer.eval_model.eval()
        try:
            measured = scoring.evaluate(
                self._translator, self.texts.val, ranks=self.ranks, should_stop=should_stop
            )
        except scoring.EvaluationStoppedError:
            return None
        scores = measured.scores
        return Validation(measured.loss, scores.bleu, scores.bleu_lc)

    def summary(self, always_probe: bool = False) -> Iterator[Row]:
        """What there is to say of the training from where its trainer stands.

        Args:
            always_probe: try some steps even where training is hardly longer than that.
        """
        trainer = self.trainer
        sample = trainer.sample(PROBED)
        batches_left = (trainer.total_steps - trainer.step) * self.config.training.accumulate
        probing = batches_left > 0 and (always_probe or batches_left >= WORTHWHILE)
        fits = trial_fits(trainer, self.config)
        expected = forecast(trainer, sample) if probing and fits else None
        pairs = len(self._text)
        yield from summary(
            self.config, self.texts, self.prepared, trainer, sample, pairs, self._unmeasured
        )
        yield computing(self.device, self.precision, self.ranks.size)
        if self.before is not None:
            environment = describe_environment(self.device, self.precision, self.ranks.size)
            changed = changed_environment(read_records(self.run.metrics), environment)
            yield from changes(self.before, self.config, trainer, changed)
        if probing and not fits:
            yield "forecast", "none: steps on trial take a copy of the model, which does not fit"
        yield from expectation(expected, self.run.path)

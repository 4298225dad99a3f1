"""Evaluate a model on a split: translate it, score the translations, and measure the loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import shorten
from transformer_cli.data import kinds
from transformer_cli.data.batches import Batch, collate
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.shards import cut_by_tokens
from transformer_cli.data.store import EncodedText, encode_pairs
from transformer_cli.evaluation.scores import USUAL, Metrics, Scores, score
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.search import TorchEngine, split_when_out_of_memory
from transformer_cli.inference.translation import Notes, Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher, ignore
from transformer_cli.model.device import sum_dtype
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.training.preparation import PreparedData
from transformer_cli.training.session import Validation
from transformer_cli.training.trainer import Trainer

TorchTranslator = TextTranslator[TorchEngine]
"""A translator whose engine has the torch model, which can also compute losses."""

_LOGITS_AT_A_TIME = 1 << 27  # for the loss; half a gigabyte in float32
_SAMPLES = 3
_MAX_SAMPLE_LENGTH = 300  # characters in metrics.jsonl; a line of text may have millions


@dataclass(frozen=True)
class Evaluation:
    """A model's translations of a split, with their scores and the loss."""

    hypotheses: list[str]
    scores: Scores
    loss: float  # mean negative log-likelihood of a target token, EOS included, unsmoothed
    unmeasured: int  # pairs too long for the loss; see ``TextTranslator.longest_source``
    notes: list[Notes]


def load_split(run: RunDirectory, split: str | None, advice: str) -> tuple[str, ParallelText]:
    """Return the name and text of a split of a run's corpus; default: the first test split, or val.

    The error for an imported model, which has no corpus, ends with ``advice``.
    """
    data = run.load_config().data
    kinds.check_has_splits(data, run.path, advice)
    name = split or kinds.default_split(data)
    return name, kinds.load_split(data, name, run.text_place)


class EvaluationStoppedError(Exception):
    """The error that an evaluation raises when it is asked to stop."""


def evaluate(
    translator: TorchTranslator,
    text: ParallelText,
    watcher: Watcher = NOBODY,
    ranks: Ranks = SINGLE_PROCESS,
    thorough: bool = False,
    searcher: TextTranslator[SearchEngine] | None = None,
    metrics: Metrics = USUAL,
    notes: Sequence[Notes] = (),
) -> Evaluation:
    """Translate the source lines, score the translations, and compute the loss of short pairs.

    The text must have at least one pair; blank source lines have empty translations. All ranks
    divide the work and return the same result. If given, ``searcher`` translates instead of
    ``translator``, for example with an engine that computes no loss. All translations are passed to
    ``notes`` and to the notes of the translator's revisers.

    Raises:
        EvaluationStoppedError: the watcher of any rank, called before each batch, asks to stop.
    """
    encoded = encode_pairs(text.pairs(), translator.tokenizers)
    short = find_measurable_pairs(translator, encoded)
    translator.report_long_lines(encoded.src.lengths, watcher)
    quiet = watcher._replace(on_long_line=ignore)  # ranks have already reported long lines
    hypotheses = ranks.map(lambda lines: (searcher or translator).translate(lines, quiet), text.src)
    (stopping,) = ranks.sum([watcher.should_stop()])
    if stopping:
        raise EvaluationStoppedError
    loss = mean_loss(
        translator.engine.model,
        encoded if len(short) == len(text) else encoded.take(short),
        translator.config.training.batch_tokens,
        translator.engine.precision,
        ranks,
    )
    notes = [*translator.new_notes(), *notes]
    for number, (src, tgt) in enumerate(zip(text.src, hypotheses, strict=True), start=1):
        for note in notes:
            list(note.look(number, src, [Translation(tgt)]))
    scores = score(hypotheses, text.tgt, thorough, metrics)
    return Evaluation(hypotheses, scores, loss, len(text) - len(short), notes)


def find_measurable_pairs(translator: TorchTranslator, text: EncodedText) -> np.ndarray:
    """Return the indices of the pairs short enough for the loss; raise CorpusError if none are."""
    lengths = np.maximum(text.src.lengths, text.tgt.lengths)
    short = np.flatnonzero(lengths <= translator.longest_source)
    if not len(short):
        raise CorpusError(
            f"every pair has a side with more than {translator.longest_source:,} tokens; "
            "put one sentence on each line"
        )
    return short


@torch.inference_mode()
def mean_loss(
    model: Transformer,
    text: EncodedText,
    batch_tokens: int,
    precision: torch.dtype,
    ranks: Ranks = SINGLE_PROCESS,
) -> float:
    """Return the mean negative log-likelihood of a target token, EOS included, unsmoothed.

    ``batch_tokens`` limits each side of a batch, padding included. All ranks get the result.
    """
    device = next(model.parameters()).device
    lengths = np.maximum(text.src.lengths, text.tgt.lengths) + 1
    total = torch.zeros((), dtype=sum_dtype(device), device=device)
    tgt_tokens = 0

    def sum_nll(indices: np.ndarray) -> Tensor:
        return _sum_nll(model, collate(text.take(indices)).to(device), precision)

    batches = list(cut_by_tokens(np.argsort(lengths, kind="stable"), lengths, batch_tokens))
    for indices in batches[ranks.rank :: ranks.size]:
        for nll in split_when_out_of_memory(sum_nll, indices):
            total += nll
        tgt_tokens += int(text.tgt.lengths[indices].sum()) + len(indices)
    total_of_all, tokens_of_all = ranks.sum([total.item(), tgt_tokens])
    return total_of_all / tokens_of_all


def _sum_nll(model: Transformer, batch: Batch, precision: torch.dtype) -> Float[Tensor, ""]:
    """Return the negative log-likelihood of a batch's target tokens, summed in ``sum_dtype``."""
    device = batch.src.device
    total = torch.zeros((), dtype=sum_dtype(device), device=device)
    with autocast(device, precision):
        hidden_states = model.hidden_states(batch.src, batch.tgt_in).flatten(0, 1)
    true_tokens = batch.tgt_out.flatten()
    rows = max(1, _LOGITS_AT_A_TIME // model.tgt_size)
    for start in range(0, len(true_tokens), rows):
        part = slice(start, start + rows)
        with autocast(device, precision):
            logits = model.logits(hidden_states[part])
        total += F.cross_entropy(
            logits.float(), true_tokens[part], ignore_index=model.pad_id, reduction="sum"
        )
    return total


@dataclass(frozen=True)
class Validator:
    """A function that evaluates a trainer's ``eval_model`` on the validation split."""

    trainer: Trainer
    translator: TextTranslator[TorchEngine]
    pairs: ParallelText
    num_unscored: int  # number of pairs that are too long for the validation loss
    metrics: Metrics
    select: str  # the metric used to choose the best checkpoint

    def __call__(self, should_stop: Callable[[], bool]) -> Validation | None:
        """Evaluate the model with greedy search; return None if asked to stop."""
        self.trainer.eval_model.eval()
        try:
            result = evaluate(
                self.translator,
                self.pairs,
                ranks=self.trainer.ranks,
                watcher=Watcher(should_stop=should_stop),
                metrics=self.metrics,
            )
        except EvaluationStoppedError:
            return None
        scores = {name: score.value for name, score in result.scores.items()}
        samples = choose_samples(self.pairs, result.hypotheses)
        return Validation(result.loss, scores, self.metrics.tokenize, self.select, samples)


def choose_samples(pairs: ParallelText, hypotheses: Sequence[str]) -> list[dict[str, str]]:
    """Return a few evenly spaced pairs with translations, for people to read; cut long lines."""
    places = {(2 * number + 1) * len(pairs) // (2 * _SAMPLES) for number in range(_SAMPLES)}
    sides = {"source": pairs.src, "reference": pairs.tgt, "translation": hypotheses}
    return [
        {name: shorten(side[place], _MAX_SAMPLE_LENGTH) for name, side in sides.items()}
        for place in sorted(places)
    ]


def build_validator(
    config: Config, data: PreparedData, trainer: Trainer, metrics: Metrics, select: str
) -> Validator:
    """Build the function that validates the model during training, with greedy search."""
    engine = TorchEngine(trainer.eval_model, trainer.precision)
    translator = TextTranslator(engine, data.tokenizers, config, config.decoding)
    num_unscored = len(data.val) - len(find_measurable_pairs(translator, data.val))
    translator = translator.with_search(beam_size=1)
    return Validator(trainer, translator, data.texts.val, num_unscored, metrics, select)

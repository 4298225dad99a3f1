"""sacreBLEU's scores of translations, and the loss of a split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.data.batches import Batch, collate
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.token_arrays import EncodedText, encode_text
from transformer_cli.data.token_budget import cut_by_tokens
from transformer_cli.errors import CorpusError
from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.inference.engine import SearchEngine, ignore, never
from transformer_cli.inference.lines import LongLine
from transformer_cli.inference.torch_engine import TorchTranslator, split_when_out_of_memory
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.device import sum_dtype
from transformer_cli.model.ensemble import Ensemble
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.text.placeholders import compare_placeholders

# Of the validation loss: half a gigabyte in float32.
_LOGITS_AT_A_TIME = 1 << 27


@dataclass(frozen=True)
class Scores:
    """Scores from 0 to 100 of detokenised text against raw references, with their signatures."""

    bleu: float
    bleu_lc: float | None
    """None: the target language's script has no case."""
    chrf: float
    signature: str
    signature_lc: str | None
    signature_chrf: str
    ter: float | None = None
    """Edits to a hundred reference words, so the fewer the better; None: not asked for."""
    signature_ter: str | None = None
    bleu_ci: float | None = None
    """Half of the 95 % interval by bootstrap resampling, in points; so are the others. None: not
    asked for, or too many sentences.
    """
    bleu_lc_ci: float | None = None
    chrf_ci: float | None = None
    ter_ci: float | None = None


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    thorough: bool = False,
    metrics: Metrics = USUAL,
) -> Scores:
    """Return BLEU (Post 2018), cased and lowercased, and chrF (Popović 2015).

    Args:
        hypotheses: one translation a sentence, as a person would write it.
        references: as many raw reference lines.
        thorough: whether to compute TER (Snover et al. 2006) and 95 % intervals too: 3 s for 1,000
            lines. The signatures say how often was resampled, and by which seed.
        metrics: those of the target language.

    Raises:
        CorpusError: there are more of the ones than of the others.
    """
    _check_equal_lengths(hypotheses, references)
    from transformer_cli.evaluation.significance import measure

    asked = {**metrics.by_name(), **({"ter": metrics.ter()} if thorough else {})}
    measured = {
        name: measure(metric, hypotheses, references, thorough) for name, metric in asked.items()
    }
    bleu, chrf = measured["bleu"], measured["chrf"]
    bleu_lc, ter = measured.get("bleu_lc"), measured.get("ter")
    return Scores(
        bleu=bleu.score,
        bleu_lc=bleu_lc and bleu_lc.score,
        chrf=chrf.score,
        signature=bleu.signature,
        signature_lc=bleu_lc and bleu_lc.signature,
        signature_chrf=chrf.signature,
        ter=ter and ter.score,
        signature_ter=ter and ter.signature,
        bleu_ci=bleu.half_width,
        bleu_lc_ci=bleu_lc and bleu_lc.half_width,
        chrf_ci=chrf.half_width,
        ter_ci=ter and ter.half_width,
    )


def _check_equal_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise CorpusError(
            f"{len(hypotheses)} translations but {len(references)} references; "
            "each needs a reference of its own"
        )


@dataclass(frozen=True)
class Evaluation:
    """What a model makes of a split."""

    hypotheses: list[str]
    scores: Scores
    loss: float
    """Mean negative log-likelihood of a target token, EOS included, without smoothing."""
    unmeasured: int
    """Pairs too long to be part of the loss; see ``TextTranslator.longest_source``."""
    differing: int | None = None
    """Lines whose translation has other placeholders; None: the tokenizers protect none."""


class EvaluationStoppedError(Exception):
    """An evaluation was asked to stop."""


def evaluate(
    translator: TorchTranslator,
    text: ParallelText,
    progress: Callable[[int], object] = ignore,
    ranks: Ranks = SINGLE_PROCESS,
    on_long_line: Callable[[LongLine], object] = ignore,
    should_stop: Callable[[], bool] = never,
    thorough: bool = False,
    searcher: TextTranslator[SearchEngine] | None = None,
    metrics: Metrics = USUAL,
) -> Evaluation:
    """Translate the source side and compare with the target side.

    The loss is of pairs whose sides could both be translated as one.

    Args:
        translator: model, tokenizers and search.
        text: at least one pair of lines; blank source lines have empty translations.
        progress: called with the number of sentences just translated.
        ranks: who shares the work; all of them get its result.
        on_long_line: called with each source line too long to be translated as one.
        should_stop: called before each batch that is translated.
        thorough: see ``score``; it takes longer than training would wait.
        searcher: translates instead, with an engine that gives no loss.
        metrics: those of the target language.

    Raises:
        CorpusError: all pairs are too long for the loss.
        EvaluationStoppedError: on all ranks alike, as one of them should stop.
    """
    encoded = encode_text(text, translator.tokenizers, lambda lines, _: lines)
    short = find_measurable_pairs(translator, encoded)
    for long_line in translator.find_long_lines(encoded.src.lengths):
        on_long_line(long_line)
    translate = (searcher or translator).translate
    hypotheses = ranks.map(
        lambda numbers: translate(
            [text.src[number] for number in numbers],
            progress,
            should_stop=should_stop,
            tags=text.tags and [text.tags[number] for number in numbers],
        ),
        range(len(text)),
    )
    (stopping,) = ranks.sum([should_stop()])
    if stopping:
        raise EvaluationStoppedError
    loss = mean_loss(
        translator.engine.searched,
        encoded if len(short) == len(text) else encoded.take(short),
        translator.config.training.batch_tokens,
        translator.engine.precision,
        ranks,
    )
    scores = score(hypotheses, text.tgt, thorough, metrics)
    protect = translator.tokenizers.protect
    differing = (
        sum(
            1
            for pair in zip(text.src, hypotheses, strict=True)
            if compare_placeholders(*pair, protect)
        )
        if protect
        else None
    )
    return Evaluation(hypotheses, scores, loss, len(text) - len(short), differing)


def find_measurable_pairs(translator: TorchTranslator, text: EncodedText) -> np.ndarray:
    """Return the numbers of the pairs that are not too long for the loss.

    Raises:
        CorpusError: all are.
    """
    lengths = np.maximum(text.src.lengths, text.tgt.lengths)
    short = np.flatnonzero(lengths <= translator.longest_source)
    if not len(short):
        raise CorpusError(
            f"all pairs of lines have more than {translator.longest_source:,} tokens on a side; "
            "put one sentence on a line"
        )
    return short


@torch.inference_mode()
def mean_loss(
    model: Transformer | Ensemble,
    text: EncodedText,
    batch_tokens: int,
    precision: torch.dtype,
    ranks: Ranks = SINGLE_PROCESS,
) -> float:
    """Return the mean negative log-likelihood of a target token, EOS included, unsmoothed.

    Args:
        model: in evaluation mode.
        text: at least one sentence pair.
        batch_tokens: most tokens of a side of a batch, padding included.
        precision: type of the matrix products.
        ranks: who shares the work; all of them get its result.
    """
    device = next(model.parameters()).device
    lengths = np.maximum(text.src.lengths, text.tgt.lengths) + 1
    total = torch.zeros((), dtype=sum_dtype(device), device=device)
    tgt_tokens = 0

    def sum_of(indices: np.ndarray) -> Tensor:
        return _sum_nll(model, collate(text, indices).to(device), precision)

    batches = list(cut_by_tokens(np.argsort(lengths, kind="stable"), lengths, batch_tokens))
    for indices in batches[ranks.rank :: ranks.size]:
        for nll in split_when_out_of_memory(sum_of, indices):
            total += nll
        tgt_tokens += int(text.tgt.lengths[indices].sum()) + len(indices)
    total_of_all, tokens_of_all = ranks.sum([total.item(), tgt_tokens])
    return total_of_all / tokens_of_all


def _sum_nll(
    model: Transformer | Ensemble, batch: Batch, precision: torch.dtype
) -> Float[Tensor, ""]:
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

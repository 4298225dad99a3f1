"""Statistics of a run's training text and tokenizers."""

from dataclasses import dataclass

import numpy as np

from transformer_cli.data.store import EncodedStore, open_store, read_stats
from transformer_cli.data.token_arrays import PERCENTILES, EncodedText, percentiles
from transformer_cli.report.charts import Chart, Series
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class SideStatistics:
    """One side of the training text."""

    lines: int
    tokens: int
    lengths: dict[int, int]
    """By percentile: tokens of a line."""
    counts: np.ndarray
    """Number of lines of 0, 1, 2, … tokens."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the training text and the split."""

    src: SideStatistics | None
    """None, as is the target's, where the run's store of it is not there."""
    tgt: SideStatistics | None
    sizes: tuple[int, int]
    """Entries of the vocabularies."""
    shared: bool
    """Whether the two are one."""
    types: tuple[int, int] | None
    """Different words of the training text; None for subwords."""
    unknown: tuple[float, float]
    """Share of the split's tokens that the vocabulary lacks."""


def compute_statistics(run: RunDirectory, tokenizers: Tokenizers, split: EncodedText) -> Statistics:
    """Return statistics of the run's training text, and of the split that it is scored on."""
    store = _store(run)
    src = tgt = None
    if store is not None and len(store):
        counts = store.count_lengths()
        src = _side(store, store.record.src_tokens, counts.src)
        tgt = _side(store, store.record.tgt_tokens, counts.tgt)
    return Statistics(
        src,
        tgt,
        (tokenizers.src.size, tokenizers.tgt.size),
        tokenizers.src is tokenizers.tgt,
        tokenizers.types,
        (_unknown(split.src.ids), _unknown(split.tgt.ids)),
    )


def make_length_chart(statistics: Statistics, languages: tuple[str, str]) -> Chart | None:
    """Return a chart of training lines by length; the longest hundredth is left out."""
    if statistics.src is None or statistics.tgt is None:
        return None
    series = []
    for side, role, language in (
        (statistics.src, "src", f"source ({languages[0]})"),
        (statistics.tgt, "tgt", f"target ({languages[1]})"),
    ):
        end = side.lengths[99] + 1
        series.append(Series(language, role, list(range(end)), side.counts[:end].tolist()))
    medians = " and ".join(f"{side.lengths[50]}" for side in (statistics.src, statistics.tgt))
    return Chart(
        "lengths",
        "Length of training lines",
        f"Lines by length: the middle ones have {medians} tokens, source and target.",
        "tokens in a line",
        "lines",
        series,
        kind="area",
    )


def _store(run: RunDirectory) -> EncodedStore | None:
    stats = read_stats(run.encoded)
    if stats is None:
        return None
    return open_store(run.encoded, stats.text_sha256, fingerprint(run.tokenizer), is_verified=True)


def _side(store: EncodedStore, tokens: int, counts: np.ndarray) -> SideStatistics:
    lengths = dict(zip(PERCENTILES, percentiles(counts, PERCENTILES), strict=True))
    return SideStatistics(len(store), tokens, lengths, counts)


def _unknown(ids: np.ndarray) -> float:
    return float((ids == UNK_ID).mean()) if len(ids) else 0.0

"""Write the store of a training text: tasks encode parts of it, which are then put together.

A part has a store's files for some neighbouring pages, as if its ids were the first.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from transformer_cli.data.corpus import digest_lines, fold_side
from transformer_cli.data.shards import PairRange
from transformer_cli.data.store import (
    ID,
    IDS,
    LINES,
    PAGE_PAIRS,
    PAGES,
    EncodedStore,
    StoreRecord,
    move_pages,
    page_entry,
    store_artifact,
)
from transformer_cli.data.token_arrays import encode_pairs
from transformer_cli.data.training_text import CHANGED, StreamedLines, StreamedText, keep_full
from transformer_cli.data.workers import SerialExecutor
from transformer_cli.errors import CorpusError, TokenizerError, TransformerCliError
from transformer_cli.text.protocol import ProgressBar, Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

Load = Callable[[], Tokenizers]
"""Returns the tokenizers, where they are needed."""


class PartPlan(NamedTuple):
    """Some pairs with text on both sides: those of these ranges, without the first ones."""

    ranges: list[PairRange]
    skipped: int
    pairs: int


class Part(NamedTuple):
    """A part that is encoded."""

    name: str
    """Of its files, before their endings."""
    pairs: int
    src_tokens: int
    tgt_tokens: int


@lru_cache(maxsize=1)
def load_once(directory: Path, fingerprint: str) -> Tokenizers:
    """Load the tokenizers of a directory, unless the last ones were of this fingerprint."""
    return load_tokenizers(directory)


def write_store(
    directory: Path,
    text: StreamedText,
    load: Load,
    tokenizer: str,
    progress: ProgressBar,
    executor: Executor | None = None,
    page_pairs: int = PAGE_PAIRS,
) -> EncodedStore:
    """Encode ``text`` into ``directory``, which must not exist yet.

    ``load`` is called by tasks of ``executor``; ``tokenizer`` is the tokenizers' fingerprint.

    Raises:
        CorpusError: the text has changed since it was checked.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """
    executor = executor or SerialExecutor()

    def write(made: Path) -> StoreRecord:
        work = made.absolute() / "parts"
        work.mkdir()
        plans = list(_plan_parts(text, page_pairs, work))
        same = (repeat(load), repeat(page_pairs), repeat(work))
        parts = executor.map(_encode_part, plans, *same)
        src_tokens, tgt_tokens = _join_parts(
            made, work, _show(parts, len(text), progress), page_pairs
        )
        # A worker that was given up may still write there.
        shutil.rmtree(work, ignore_errors=True)
        mtime_key = text.source.mtime_key()
        text.check_unchanged(executor)
        return StoreRecord(
            made_of={"text": text.stats.text_sha256, "tokenizer": tokenizer},
            stats=replace(text.stats, mtime_key=mtime_key),
            page_pairs=page_pairs,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
        )

    return EncodedStore(directory, store_artifact(directory).make(write))


def _plan_parts(text: StreamedText, page_pairs: int, work: Path) -> Iterator[PartPlan]:
    """Yield the part of each range: the pages that begin in it, whose last may end in the next."""
    ranges, counts = zip(*text.count_ranges(work), strict=True)
    ends = list(accumulate(counts, initial=0))
    last = 0
    for number, (start, end) in enumerate(pairwise(ends)):
        first, after = (min(-(-place // page_pairs) * page_pairs, len(text)) for place in (start, end))
        while ends[last] < after:
            last += 1
        if after > first:
            yield PartPlan(list(ranges[number:last]), first - start, after - first)


def _show(parts: Iterator[Part], pairs: int, progress: ProgressBar) -> Iterator[Part]:
    """Yield the parts, and show how many of the pairs they have."""
    bar = iter(progress(StreamedLines(lambda: repeat("", pairs), pairs), "encoding"))
    for part in parts:
        yield part
        for _ in islice(bar, part.pairs):
            pass
    next(bar, None)  # which ends it


def _join_parts(directory: Path, work: Path, parts: Iterable[Part], page_pairs: int) -> tuple[int, int]:
    """Write the files of a store; return how many tokens the sources and the targets have."""
    src_tokens = tgt_tokens = 0
    with ExitStack() as stack:
        ids, table, lines = (
            stack.enter_context((directory / name).open("wb")) for name in (IDS, PAGES, LINES)
        )
        for part in parts:
            own_ids, own_table, own_lines = (work / f"{part.name}.{end}" for end in (IDS, PAGES, LINES))
            for path, file in ((own_ids, ids), (own_lines, lines)):
                with path.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
            table.write(move_pages(own_table.read_bytes(), page_pairs, src_tokens + tgt_tokens))
            for path in (own_ids, own_table, own_lines):
                path.unlink()
            src_tokens += part.src_tokens
            tgt_tokens += part.tgt_tokens
    return src_tokens, tgt_tokens


# --- a task --------------------------------------------------------------------------------------


def _encode_part(plan: PartPlan, load: Load, page_pairs: int, work: Path) -> Part:
    """Encode a part into files of a new name, as two workers may do so at once."""
    try:
        part = _write_part(plan, load(), page_pairs, work / uuid4().hex)
    except (TransformerCliError, OSError):
        raise
    except Exception as error:  # which may not be one that can be sent
        raise TokenizerError(f"cannot encode ({type(error).__name__}: {error})") from None
    if part.pairs < plan.pairs:
        raise CorpusError(CHANGED)
    return part


def _write_part(plan: PartPlan, tokenizers: Tokenizers, page_pairs: int, path: Path) -> Part:
    pairs = src_tokens = tgt_tokens = 0
    full = keep_full(chain.from_iterable(part.pairs() for part in plan.ranges))
    own = islice(full, plan.skipped, plan.skipped + plan.pairs)
    with ExitStack() as stack:
        ids, table, lines = (
            stack.enter_context(path.with_suffix(f".{end}").open("xb")) for end in (IDS, PAGES, LINES)
        )
        while page_of := list(islice(own, page_pairs)):
            folded = (fold_side(side) for pair in page_of for side in pair)
            lines.write(digest_lines(folded).tobytes())
            page = encode_pairs(page_of, tokenizers)
            lengths = np.concatenate(page.lengths).astype(ID).tobytes()
            page_ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
            table.write(page_entry(src_tokens + tgt_tokens, lengths, page_ids))
            ids.write(page_ids)
            pairs += len(page)
            src_tokens += len(page.src.ids)
            tgt_tokens += len(page.tgt.ids)
    return Part(path.name, pairs, src_tokens, tgt_tokens)

"""Write the store of a training text: tasks encode parts of it, which are then put together.

A part has a store's files for some neighbouring pages, as if its ids were the first.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import numpy as np

from transformer_cli.data.corpus import PairRange, digest_lines, fold_side
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

_COPIED_BYTES = 1 << 20

Load = Callable[[], Tokenizers]
"""Returns the tokenizers, where they are needed."""


class PartPlan(NamedTuple):
    """Some pairs with text on both sides: those of these ranges, without the first ones."""

    ranges: list[PairRange]
    skipped: int
    pairs: int


class EncodedPart(NamedTuple):
    """A part that is encoded."""

    directory: Path
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
        shown = _show(parts, len(text), progress)
        src_tokens, tgt_tokens = _join_parts(made, shown, page_pairs)
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
    """Yield a part for each range: the pages that begin there, whose last may end in the next."""
    ranges, counts = zip(*text.count_ranges(work), strict=True)
    ends = list(accumulate(counts, initial=0))
    last = 0
    for number, bounds in enumerate(pairwise(ends)):
        pages = (-(-bound // page_pairs) for bound in bounds)
        first, after = (min(page * page_pairs, len(text)) for page in pages)
        while ends[last] < after:
            last += 1
        if first < after:
            yield PartPlan(list(ranges[number:last]), first - bounds[0], after - first)


def _show(parts: Iterable[EncodedPart], pairs: int, progress: ProgressBar) -> Iterator[EncodedPart]:
    """Yield the parts, and show how many of the pairs they have."""
    bar = iter(progress(StreamedLines(lambda: repeat("", pairs), pairs), "encoding"))
    for part in parts:
        yield part
        deque(islice(bar, part.pairs), maxlen=0)
    next(bar, None)  # which ends it


def _join_parts(directory: Path, parts: Iterable[EncodedPart], page_pairs: int) -> tuple[int, int]:
    """Write the files of a store; return how many tokens the sources and the targets have."""
    src_tokens = tgt_tokens = 0
    with _open_files(directory) as (ids, pages, lines):
        for part in parts:
            entries = (part.directory / PAGES).read_bytes()
            pages.write(move_pages(entries, page_pairs, src_tokens + tgt_tokens))
            for name, file in ((IDS, ids), (LINES, lines)):
                with (part.directory / name).open("rb") as source:
                    shutil.copyfileobj(source, file, _COPIED_BYTES)
            shutil.rmtree(part.directory)
            src_tokens += part.src_tokens
            tgt_tokens += part.tgt_tokens
    return src_tokens, tgt_tokens


@contextmanager
def _open_files(directory: Path) -> Iterator[list[BinaryIO]]:
    with ExitStack() as stack:
        paths = (directory / name for name in (IDS, PAGES, LINES))
        yield [stack.enter_context(path.open("xb")) for path in paths]


def _encode_part(plan: PartPlan, load: Load, page_pairs: int, work: Path) -> EncodedPart:
    """Encode a part into a directory of a new name, as two workers may do so at once."""
    directory = work / uuid4().hex
    try:
        tokenizers = load()
        directory.mkdir()
        part = _write_part(directory, plan, tokenizers, page_pairs)
    except (TransformerCliError, OSError):
        raise
    except Exception as error:  # others may not be such as can be sent
        reason = f"{type(error).__name__}: {error}"
        raise TokenizerError(f"the training text cannot be encoded ({reason})") from None
    if part.pairs < plan.pairs:
        raise CorpusError(CHANGED)
    return part


def _write_part(
    directory: Path, plan: PartPlan, tokenizers: Tokenizers, page_pairs: int
) -> EncodedPart:
    """Write the files of a part, a page at a time."""
    count = src_tokens = tgt_tokens = 0
    full = keep_full(chain.from_iterable(each.pairs() for each in plan.ranges))
    own = islice(full, plan.skipped, plan.skipped + plan.pairs)
    with _open_files(directory) as (ids, pages, lines):
        while pairs := list(islice(own, page_pairs)):
            lines.write(digest_lines(map(fold_side, chain.from_iterable(pairs))).tobytes())
            page = encode_pairs(pairs, tokenizers)
            lengths = np.concatenate(page.lengths).astype(ID).tobytes()
            page_ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
            pages.write(page_entry(src_tokens + tgt_tokens, lengths, page_ids))
            ids.write(page_ids)
            count += len(pairs)
            src_tokens += len(page.src.ids)
            tgt_tokens += len(page.tgt.ids)
    return EncodedPart(directory, count, src_tokens, tgt_tokens)

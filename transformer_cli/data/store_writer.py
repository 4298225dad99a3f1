"""Encode a text into a store, as a stream."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from transformer_cli.artifact import write_record
from transformer_cli.data.digests import digest_lines
from transformer_cli.data.encode_workers import PageEncoder, Pairs
from transformer_cli.data.pages import unpack_lengths
from transformer_cli.data.splitting import fold_side
from transformer_cli.data.store import (
    INDEX,
    INDEX_BYTES,
    LINES,
    METADATA,
    PAGES,
    EncodedStore,
    StoreMetadata,
    stat_files,
)
from transformer_cli.data.streamed import StreamedLines, StreamedText
from transformer_cli.data.token_arrays import SrcTgt
from transformer_cli.files import whole_directory
from transformer_cli.text.lines import ProgressBar

PAGE_PAIRS = 256
"""Neighbouring pairs that are read together."""


def write_store(
    directory: Path,
    text: StreamedText,
    encode: PageEncoder,
    tokenizer: str,
    progress: ProgressBar,
    page_pairs: int = PAGE_PAIRS,
) -> EncodedStore:
    """Encode ``text`` into the new directory ``directory``.

    Args:
        directory: must not exist yet.
        text: what to encode, read once.
        encode: encodes its pages.
        tokenizer: fingerprint of the tokenizers that ``encode`` uses.
        progress: wraps the source lines, given a label, to draw a progress bar.
        page_pairs: pairs of a page.

    Raises:
        CorpusError: the text has changed since it was surveyed.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """
    with whole_directory(directory) as temporary:
        pages = _paginate(_read_with_progress(text, progress), page_pairs)
        with (
            (temporary / LINES).open("wb") as lines,
            closing(encode(_write_lines(lines, pages))) as encoded,
        ):
            tokens = _write_pages(temporary, encoded)
        stamp = text.source.stamp()
        text.check_unchanged()
        metadata = StoreMetadata(
            survey=replace(text.survey, stamp=stamp),
            page_pairs=page_pairs,
            tokenizer=tokenizer,
            src_tokens=tokens.src,
            tgt_tokens=tokens.tgt,
            files=stat_files(temporary),
        )
        write_record(temporary / METADATA, metadata)
    return EncodedStore.from_metadata(directory, metadata)


def _read_with_progress(text: StreamedText, progress: ProgressBar) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ``text``, with a bar that counts their sources."""
    targets: deque[str] = deque()

    def sources() -> Iterator[str]:
        for src, tgt in text.pairs():
            targets.append(tgt)
            yield src

    for src in progress(StreamedLines(sources, len(text)), "encoding"):
        yield src, targets.popleft()


def _paginate(pairs: Iterator[tuple[str, str]], size: int) -> Iterator[Pairs]:
    while page := list(islice(pairs, size)):
        yield page


def _write_lines(file: BinaryIO, pages: Iterable[Pairs]) -> Iterator[Pairs]:
    """Write the digests of each page's lines before the page is encoded."""
    for page in pages:
        file.write(digest_lines(fold_side(side) for pair in page for side in pair).tobytes())
        yield page


def _write_pages(directory: Path, pages: Iterable[bytes]) -> SrcTgt[int]:
    """Write pages and their index; return the number of tokens."""
    src_tokens = tgt_tokens = start = 0
    with (directory / PAGES).open("wb") as file, (directory / INDEX).open("wb") as index:
        for page in pages:
            index.write(start.to_bytes(INDEX_BYTES, "little"))
            file.write(page)
            start += len(page)
            lengths = unpack_lengths(page)
            src_tokens += int(lengths.src.sum())
            tgt_tokens += int(lengths.tgt.sum())
    return SrcTgt(src_tokens, tgt_tokens)

"""A page of encoded pairs as bytes: what is written to a store, and checked when it is read.

A page is a row of little-endian 32-bit numbers: two CRC-32s, its own number, how many pairs it has,
the lengths of their sources and of their targets, and then the ids, all sources' before all
targets'. The first sum is over everything from the page's number to the lengths, so that lengths
can be read alone; the second goes on over the ids. A page that is read in another's place is
therefore known as wrong, like one with a changed bit.
"""

import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from transformer_cli.data.encoded import EncodedText, TokenStore

_WORD = np.dtype("<i4")
_SUM = np.dtype("<u4")


def pack_page(number: int, src: Sequence[list[int]], tgt: Sequence[list[int]]) -> bytes:
    """The bytes of a page.

    Args:
        number: the page's, counted from 0.
        src: the ids of each pair's source.
        tgt: the ids of its target.
    """
    lengths = [len(sentence) for side in (src, tgt) for sentence in side]
    ids = [token for side in (src, tgt) for sentence in side for token in sentence]
    head = np.array([number, len(src), *lengths], _WORD).tobytes()
    body = np.array(ids, _WORD).tobytes()
    head_sum = zlib.crc32(head)
    return np.array([head_sum, zlib.crc32(body, head_sum)], _SUM).tobytes() + head + body


def packed_lengths(page: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of source and target of each pair of what ``pack_page`` has just given."""
    number, pairs = np.frombuffer(page, _WORD, 2, 2 * _SUM.itemsize).tolist()
    return read_lengths(BytesIO(page), number, pairs)


def read_lengths(file: BinaryIO, number: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of source and target of each pair of the page that begins here; no ids are read.

    Args:
        file: stands where the page begins.
        number: which page it should be.
        pairs: how many pairs it should have.

    Raises:
        ValueError: that page is not here, or it is damaged.
    """
    return _read_head(file, number, pairs).lengths


def read_page(file: BinaryIO, number: int, pairs: int) -> EncodedText:
    """The pairs of the page that begins here.

    Args:
        file: stands where the page begins.
        number: which page it should be.
        pairs: how many pairs it should have.

    Raises:
        ValueError: that page is not here, or it is damaged.
    """
    head = _read_head(file, number, pairs)
    src_lengths, tgt_lengths = head.lengths
    src_tokens, tgt_tokens = int(src_lengths.sum()), int(tgt_lengths.sum())
    body = file.read((src_tokens + tgt_tokens) * _WORD.itemsize)
    if zlib.crc32(body, head.sum) != head.page_sum:
        raise ValueError("a page's ids are not those of its checksum")
    ids = np.frombuffer(body, _WORD)
    return EncodedText(
        TokenStore.from_lengths(ids[:src_tokens], src_lengths),
        TokenStore.from_lengths(ids[src_tokens:], tgt_lengths),
    )


class _Head(NamedTuple):
    """What a page says of its ids."""

    sum: int
    page_sum: int
    lengths: tuple[np.ndarray, np.ndarray]


def _read_head(file: BinaryIO, number: int, pairs: int) -> _Head:
    sums = file.read(2 * _SUM.itemsize)
    words = file.read((2 + 2 * pairs) * _WORD.itemsize)
    if len(sums) < 2 * _SUM.itemsize or len(words) < (2 + 2 * pairs) * _WORD.itemsize:
        raise ValueError("a page is cut off")
    head_sum, page_sum = np.frombuffer(sums, _SUM).tolist()
    if zlib.crc32(words) != head_sum:
        raise ValueError("a page's lengths are not those of its checksum")
    numbers = np.frombuffer(words, _WORD)
    if numbers[:2].tolist() != [number, pairs]:
        raise ValueError("a page stands in another's place")
    lengths = numbers[2:].astype(np.int64)
    return _Head(head_sum, page_sum, (lengths[:pairs], lengths[pairs:]))

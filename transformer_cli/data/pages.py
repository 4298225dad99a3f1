"""Pages: the binary format of encoded pairs in a store, with checksums.

A page is an array of little-endian 32-bit numbers: two CRC-32s, the page's number, its number of
pairs, the lengths of their sources and of their targets, and then the ids, all sources' before all
targets'. The first CRC covers everything from the page's number to the lengths, so that lengths can
be read alone; the second continues over the ids. As the page's number is covered, a page in the
wrong place is detected like a flipped bit.
"""

import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from transformer_cli.data.token_arrays import EncodedText, Lengths, TokenArray

_WORD = np.dtype("<i4")
_CRC = np.dtype("<u4")


def pack_page(number: int, src: Sequence[list[int]], tgt: Sequence[list[int]]) -> bytes:
    """Return the bytes of a page.

    Args:
        number: the page's, counted from 0.
        src: the ids of each pair's source.
        tgt: the ids of its target.
    """
    lengths = [len(sentence) for side in (src, tgt) for sentence in side]
    ids = [token for side in (src, tgt) for sentence in side for token in sentence]
    header = np.array([number, len(src), *lengths], _WORD).tobytes()
    body = np.array(ids, _WORD).tobytes()
    header_crc = zlib.crc32(header)
    return np.array([header_crc, zlib.crc32(body, header_crc)], _CRC).tobytes() + header + body


def unpack_lengths(page: bytes) -> Lengths:
    """Return the lengths in a page that ``pack_page`` has just made."""
    number, pairs = np.frombuffer(page, _WORD, 2, 2 * _CRC.itemsize).tolist()
    return read_lengths(BytesIO(page), number, pairs)


def read_lengths(file: BinaryIO, number: int, pairs: int) -> Lengths:
    """Read the lengths in the page at the file's position, but not its ids.

    Args:
        file: positioned at the start of the page.
        number: the page's number.
        pairs: its number of pairs.

    Raises:
        ValueError: the page is another one, or it is damaged.
    """
    return _read_header(file, number, pairs).lengths


def read_page(file: BinaryIO, number: int, pairs: int) -> EncodedText:
    """Read the pairs in the page at the file's position; see ``read_lengths``."""
    header = _read_header(file, number, pairs)
    src_tokens, tgt_tokens = (int(lengths.sum()) for lengths in header.lengths)
    body = file.read((src_tokens + tgt_tokens) * _WORD.itemsize)
    if zlib.crc32(body, header.crc) != header.page_crc:
        raise ValueError("a page's ids are not those of its checksum")
    ids = np.frombuffer(body, _WORD)
    return EncodedText(
        TokenArray.from_lengths(ids[:src_tokens], header.lengths.src),
        TokenArray.from_lengths(ids[src_tokens:], header.lengths.tgt),
    )


class _Header(NamedTuple):
    crc: int
    page_crc: int
    lengths: Lengths


def _read_header(file: BinaryIO, number: int, pairs: int) -> _Header:
    crcs = file.read(2 * _CRC.itemsize)
    words = file.read((2 + 2 * pairs) * _WORD.itemsize)
    if len(crcs) < 2 * _CRC.itemsize or len(words) < (2 + 2 * pairs) * _WORD.itemsize:
        raise ValueError("a page is cut off")
    crc, page_crc = np.frombuffer(crcs, _CRC).tolist()
    if zlib.crc32(words) != crc:
        raise ValueError("a page's lengths are not those of its checksum")
    numbers = np.frombuffer(words, _WORD)
    if numbers[:2].tolist() != [number, pairs]:
        raise ValueError("a page stands in another's place")
    lengths = numbers[2:].astype(np.int64)
    return _Header(crc, page_crc, Lengths(lengths[:pairs], lengths[pairs:]))

"""Entries of gettext's MO files, as msgfmt compiles them."""

import struct
import tempfile
from collections.abc import Iterator
from typing import IO, BinaryIO

from transformer_cli.data.readers.po_records import Entry, header_encoding
from transformer_cli.data.readers.units import MAX_SIDE_CHARACTERS
from transformer_cli.errors import CorpusError

MAGICS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
"""The first bytes of a file, and the byte order that they stand for."""

_CHUNK_BYTES = 1 << 20
_MAX_BYTES = 1 << 30
_IN_MEMORY_BYTES = 1 << 24
_MAX_STRING_BYTES = 4 * MAX_SIDE_CHARACTERS
_HEADER_BYTES = 20


def read_mo(file: BinaryIO, name: str) -> Iterator[Entry | CorpusError]:
    """Yield the header and the entries.

    Args:
        file: as ``open_text`` opens it.
        name: the file's name, for messages.

    Raises:
        CorpusError: the file is damaged, or larger than a GiB.
    """
    # A copy, as strings lie apart from their table, and a decompressed file has no way back.
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as copy:
        size = _copy(file, copy, name)
        encoding = "utf-8"
        for number, (message, forms) in enumerate(_strings(copy, size, name), start=1):
            place = f"{name}: entry {number}"
            if len(message) > _MAX_STRING_BYTES or len(forms) > _MAX_STRING_BYTES:
                yield CorpusError(f"{place}: longer than {_MAX_STRING_BYTES >> 20} MiB")
                continue
            if not message:
                encoding = header_encoding(forms, name)
            try:
                entry = _entry(place, message, forms, encoding)
            except UnicodeError:
                yield CorpusError(f"{place}: it is not {encoding}")
                continue
            if any(entry.forms):
                yield entry


def _copy(file: BinaryIO, copy: IO[bytes], name: str) -> int:
    size = 0
    while chunk := file.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > _MAX_BYTES:
            raise CorpusError(f"{name}: an MO file of more than {_MAX_BYTES >> 30} GiB")
        try:
            copy.write(chunk)
        except OSError as error:
            raise CorpusError(
                f"{name}: cannot be copied to {tempfile.gettempdir()} ({error.strerror})"
            ) from error
    return size


def _strings(file: IO[bytes], size: int, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield each message and its translation, no more than one byte over the longest allowed."""
    file.seek(0)
    head = file.read(_HEADER_BYTES)
    if len(head) < _HEADER_BYTES:
        raise CorpusError(f"{name}: damaged MO file (it ends too early)")
    order = MAGICS[head[:4]]
    _, revision, count, *tables = struct.unpack(f"{order}5I", head)
    if revision >> 16 > 1:
        raise CorpusError(f"{name}: an MO file of the unknown revision {revision >> 16}")
    left = 2 * size
    for number in range(count):
        strings = []
        for table in tables:
            length, offset = _read_row(file, order, table + 8 * number)
            left -= length
            # Strings do not overlap; else a small file might hold text without end.
            if length < 0 or offset + length > size or left < 0:
                raise CorpusError(
                    f"{name}: entry {number + 1}: damaged MO file (it ends too early)"
                )
            file.seek(offset)
            strings.append(file.read(min(length, _MAX_STRING_BYTES + 1)))
        yield strings[0], strings[1]


def _read_row(file: IO[bytes], order: str, offset: int) -> tuple[int, int]:
    """Return length and offset of a string; the length is -1 if the file ends before."""
    file.seek(offset)
    row = file.read(8)
    if len(row) < 8:
        return -1, 0
    length, start = struct.unpack(f"{order}2I", row)
    return length, start


def _entry(place: str, message: bytes, forms: bytes, encoding: str) -> Entry:
    _, _, message = message.rpartition(b"\4")  # what is before it is the context
    singular, has_plural, plural = message.partition(b"\0")
    return Entry(
        place,
        singular.decode(encoding),
        plural.decode(encoding) if has_plural else None,
        [form.decode(encoding) for form in (forms.split(b"\0") if has_plural else [forms])],
    )

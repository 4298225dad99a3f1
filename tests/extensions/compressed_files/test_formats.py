"""Text that is compressed as its name says: read whole or refused, written as members."""

import gzip
import lzma
import os
import random
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from transformer_cli.base.errors import CorpusError, MissingExtraError
from transformer_cli.base.text_files import compressor, open_text, text_writer

ENDINGS = [".gz", ".xz", ".zst"]
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


def compress(ending: str) -> Callable[[bytes], bytes]:
    """What the format's own library makes of bytes."""
    compress: Callable[[bytes], bytes]
    if ending == ".zst":
        compress = pytest.importorskip(_ZSTD).compress
    else:
        compress = {".gz": gzip, ".xz": lzma}[ending].compress
    return compress


def decompressed(path: Path) -> bytes:
    """What the format's own library reads."""
    libraries = {".gz": gzip.decompress, ".xz": lzma.decompress}
    if path.suffix == ".zst":
        return import_module(_ZSTD).decompress(path.read_bytes())  # type: ignore[no-any-return]
    return libraries[path.suffix](path.read_bytes())


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def read(path: Path) -> bytes:
    with open_text(path) as file:
        return file.read()


def some_bytes(count: int) -> bytes:
    """Of a kind that compresses badly."""
    return random.Random(1).randbytes(count)


@pytest.mark.long_cases
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "members",
    [
        [b""],
        [b"a\n"],
        [b"a\n", b"", b"b"],
        [some_bytes(1_000_000), some_bytes(300_000)],
        [b"\n" * 5_000_000],  # far more than is held at a time
    ],
    ids=["nothing", "a line", "three members", "noise", "line ends"],
)
def test_all_members_are_read(tmp_path: Path, ending: str, members: list[bytes]) -> None:
    path = written(tmp_path / f"text{ending}", b"".join(map(compress(ending), members)))
    assert read(path) == b"".join(members)


@pytest.mark.parametrize("ending", ENDINGS)
def test_zeros_after_a_member_are_padding(tmp_path: Path, ending: str) -> None:
    member = compress(ending)(b"a\n")
    path = written(tmp_path / f"text{ending}", member + bytes(8) + member + bytes(200_000))
    assert read(path) == b"a\na\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_cut_off_anywhere_is_refused(tmp_path: Path, ending: str) -> None:
    first, second = map(compress(ending), (b"ein Hund\n" * 50, b"zwei Hunde\n" * 50))
    whole = first + second
    for size in {*range(len(whole))} - {len(first)}:
        path = written(tmp_path / f"text{ending}", whole[:size])
        with pytest.raises(CorpusError, match=f"^{path}: damaged or cut-off [^\n]+$"):
            read(path)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("rest", [b"plain text\n", b"\xff", b"\0\0x"])
def test_what_follows_a_member_and_is_none_is_refused(
    tmp_path: Path, ending: str, rest: bytes
) -> None:
    path = written(tmp_path / f"text{ending}", compress(ending)(b"a\n") + rest)
    with pytest.raises(CorpusError, match=f"^{path}: damaged or cut-off "):
        read(path)


@pytest.mark.long_cases
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_flipped_bit_is_found_or_is_of_no_account(tmp_path: Path, ending: str) -> None:
    compress(ending)
    text = b"ein Hund\n" * 50
    whole = compressor(tmp_path / f"text{ending}")(text)
    refused = 0
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path = written(tmp_path / f"text{ending}", bytes(flipped))
        try:
            found = read(path)
        except CorpusError:
            refused += 1
        else:
            assert found == text  # a time or a name in the header
    assert refused > 4 * len(whole)


@pytest.mark.posix
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_reader_does_not_wait_for_more_than_there_is(tmp_path: Path, ending: str) -> None:
    pipe = tmp_path / f"pipe{ending}"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        os.write(writer, compress(ending)(b"a\n"))
        with open_text(pipe, once=True) as file:
            assert file.readline() == b"a\n"
    finally:
        os.close(writer)


@pytest.mark.long_cases
@pytest.mark.parametrize("ending", ["", *ENDINGS])
@pytest.mark.parametrize("lines", [0, 1, 60_000])
def test_what_is_written_is_read(tmp_path: Path, ending: str, lines: int) -> None:
    if ending:
        compress(ending)
    path = tmp_path / f"text{ending}"
    text = "".join(f"Zeile {number}\u2028\r\n" for number in range(lines))
    with text_writer(path, path) as file:
        file.writelines(text)
    assert (decompressed(path) if ending else path.read_bytes()) == text.encode()
    assert read(path) == text.encode()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_flush_ends_a_member(tmp_path: Path, ending: str) -> None:
    compress(ending)
    path = tmp_path / f"text{ending}"
    with text_writer(path, path) as file:
        file.write("a\n")
        file.flush()
        assert decompressed(path) == b"a\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_text_is_the_same_bytes(tmp_path: Path, ending: str) -> None:
    compress(ending)
    path = tmp_path / f"text{ending}"
    member = compressor(path)(b"a\n")
    assert member == compressor(path.with_name(f"other{ending}"))(b"a\n")
    if ending == ".gz":
        assert member[4:8] == bytes(4)  # no time


def test_without_its_package_zstd_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, _ZSTD, None)
    path = written(tmp_path / "text.zst", b"")
    for use in (open_text, compressor):
        with pytest.raises(MissingExtraError, match=f"^{path}: [^\n]+ pip install backports.zstd$"):
            use(path)

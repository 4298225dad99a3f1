"""Parallel text in compressed files is the same text as in plain ones."""

import gzip
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.text.lines import stream_lines


def read_lines(path: Path) -> list[str]:
    return list(stream_lines(path))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"ein Hund\n" * 50, mtime=0)
    flipped = bytes([*whole[:-8], whole[-8] ^ 1, *whole[-7:]])  # in the stored CRC
    bad_block = bytes([*whole[:10], 0xFF, *whole[11:]])  # no such kind of deflate block
    for data in (whole[:-9], whole[:5], flipped, bad_block, b"plain text\n"):
        path = written(tmp_path / "text.gz", data)
        with pytest.raises(CorpusError) as error:
            read_lines(path)
        assert str(error.value).startswith(f"{path}: damaged or cut-off gzip file (")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("library", [gzip, lzma])
def test_compressed_text_of_another_name_is_no_text_of_another_encoding(
    tmp_path: Path, library: Any
) -> None:
    path = written(tmp_path / "text.de", library.compress(b"ein Hund\n"))
    with pytest.raises(CorpusError, match=f"^{path}: is compressed; [^\n]+ends with .[gx]z, "):
        read_lines(path)


def test_a_tar_archive_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "val.de").write_bytes(b"ein\nzwei\n")
    with tarfile.open(tmp_path / "x.gz", "w:gz") as archive:
        archive.add(tmp_path / "val.de", "val.de")
    with pytest.raises(CorpusError, match=r"x\.gz: is a tar archive; unpack it"):
        read_lines(tmp_path / "x.gz")


def test_a_text_is_the_same_however_it_is_packed(tmp_path: Path) -> None:
    src = written(tmp_path / "src.gz", gzip.compress("ein\u2028Hund\n\n".encode()))
    tgt = written(tmp_path / "tgt", b"a dog\r\nnothing\n")
    text = ParallelFiles(src, tgt)
    expected = ParallelText(["ein\u2028Hund", ""], ["a dog", "nothing"])
    assert text.read() == expected
    assert list(text.blocks()) == [list(expected.pairs())]
    plain = ParallelFiles(written(tmp_path / "src", "ein\u2028Hund\n\n".encode()), tgt)
    assert text.source_sha256() == plain.source_sha256()

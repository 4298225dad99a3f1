"""Ranges of lines: together they are the file, wherever it is cut."""

import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from transformer_cli.base.errors import CorpusError
from transformer_cli.data import corpus
from transformer_cli.data.corpus import PairRange, ParallelFiles, cut_lines, cut_pairs, stream_lines

texts = st.text(st.sampled_from("ab\n\n\r\ufeffé\u2028"), max_size=30)


@settings(max_examples=60)
@given(texts, st.integers(1, 5), st.integers(1, 9))
@example("\ufeff", 1, 1)
@example("\ufeff\n", 1, 1)
@example("a\nb", 2, 1)
def test_the_ranges_of_a_file_are_its_lines(text: str, size: int, block: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "_BLOCK_BYTES", block)
        path = Path(name) / "a"
        path.write_bytes(text.encode())
        expected = list(stream_lines(path))
        ranges = cut_lines(path, size)
        found = [list(each.lines()) for each in ranges]
        assert [line for lines in found for line in lines] == expected
        assert [len(lines) for lines in found] == [each.count for each in ranges]
        assert all(each.count == size for each in ranges[:-1])
        assert [each.first for each in ranges] == list(range(1, len(expected) + 1, size))


def cut(directory: Path, src: bytes, tgt: bytes, size: int = 2) -> list[PairRange]:
    (directory / "a").write_bytes(src)
    (directory / "b").write_bytes(tgt)
    return cut_pairs(ParallelFiles(directory / "a", directory / "b"), size)


def test_pairs_stay_aligned(tmp_path: Path) -> None:
    ranges = cut(tmp_path, b"a\n\nccc\n", b"1\r\n2\n3")
    assert [list(each.pairs()) for each in ranges] == [[("a", "1"), ("", "2")], [("ccc", "3")]]


def test_a_bad_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    ranges = cut(tmp_path, b"a\nb\nc\nd\xff\n", b"1\n2\n3\n4\n")
    with pytest.raises(CorpusError, match=f"^{tmp_path / 'a'}:4: not UTF-8"):
        list(ranges[1].pairs())


@pytest.mark.parametrize(("src", "told"), [(b"a\n", "has 1 lines but"), (b"", "has 0 lines but")])
def test_sides_of_different_length_are_told_at_once(tmp_path: Path, src: bytes, told: str) -> None:
    with pytest.raises(CorpusError, match=told):
        cut(tmp_path, src, b"1\n2\n")


def test_a_tar_archive_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "val.de").write_bytes(b"ein\nzwei\n")
    with tarfile.open(tmp_path / "x", "w") as archive:
        archive.add(tmp_path / "val.de", "val.de")
    for read in (stream_lines, lambda path: cut_lines(path, 2)):
        with pytest.raises(CorpusError, match="x: is a tar archive; unpack it"):
            list(read(tmp_path / "x"))


def test_a_file_that_becomes_shorter_is_noticed(tmp_path: Path) -> None:
    ranges = cut(tmp_path, b"a\nb\nc\nd\n", b"1\n2\n3\n4\n")
    (tmp_path / "a").write_bytes(b"a\nb\nc\n")
    with pytest.raises(CorpusError, match="has become shorter while it was read"):
        list(ranges[1].pairs())


def test_mustard_is_no_tar_archive(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a" * 256 + "mustard\nb\n")
    assert len(list(stream_lines(tmp_path / "x"))) == 2

import io
import os
import tarfile
from pathlib import Path

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.data.corpus import ParallelFiles, ParallelText, without_blank_pairs
from transformer_cli.text.lines import MAX_LINE_BYTES, bounded_lines, stream_lines


def read_lines(path: Path) -> list[str]:
    return list(stream_lines(path))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, inside: str) -> None:
    path = written(tmp_path / "text", f"ein{inside}Hund\nzwei\n".encode())
    assert read_lines(path) == [f"ein{inside}Hund", "zwei"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\r\r\nb\n", ["a\r", "b"]),
        (b" a \nb\t\n", [" a ", "b\t"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("Mädchen 🐕\n".encode(), ["Mädchen 🐕"]),
    ],
)
def test_line_ends_and_byte_order_mark(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    assert read_lines(written(tmp_path / "text", data)) == lines


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff", ":1: not UTF-8 (byte 0xff at column 1 "),
        ("für\n".encode("latin-1"), ":1: not UTF-8 (byte 0xfc at column 2 "),
        ("ok\nfür ".encode() + b"\xe4\n", ":2: not UTF-8 (byte 0xe4 at column 5 "),
        (b"\xef\xbb\xbfab\xff\n", ":1: not UTF-8 (byte 0xff at column 3 "),
        (b"a\nb\nc\xe2\x82", ":3: not UTF-8 (byte 0xe2 at column 2 "),
        (b"\xed\xa0\x80\n", ":1: not UTF-8 (byte 0xed at column 1 "),
    ],
)
def test_bytes_that_are_not_utf8_are_located(tmp_path: Path, data: bytes, place: str) -> None:
    path = written(tmp_path / "text.de", data)
    with pytest.raises(CorpusError) as error:
        read_lines(path)
    assert str(error.value) == (
        f"{path}{place}of the line); convert the file with iconv -f NAME -t UTF-8, where NAME is "
        "its encoding"
    )


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "text.de"
    with pytest.raises(CorpusError) as error:
        read_lines(missing)
    assert str(error.value) == (
        f"{missing}: there is no such file; relative paths start from the working directory, "
        f"here {Path.cwd()}"
    )
    with pytest.raises(CorpusError) as error:
        read_lines(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: this is a directory")


def test_a_path_through_a_file_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "file", b"a\n") / "text.de"
    with pytest.raises(CorpusError) as error:
        read_lines(path)
    assert str(error.value).startswith(f"{path}: cannot be read (Not a directory)")


def test_parallel_sides_stay_aligned(tmp_path: Path) -> None:
    src = written(tmp_path / "src", "ein\u2028Hund\n\n".encode())
    tgt = written(tmp_path / "tgt", b"a dog\r\nnothing")
    text = ParallelFiles(src, tgt).read()
    assert text == ParallelText(["ein\u2028Hund", ""], ["a dog", "nothing"])
    assert len(text) == 2


@pytest.mark.parametrize(("src_lines", "tgt_lines"), [(3, 2), (2, 3), (7, 1), (0, 2), (2, 0)])
def test_unequal_line_counts_name_both_files(
    tmp_path: Path, src_lines: int, tgt_lines: int
) -> None:
    src = written(tmp_path / "src", b"a\n" * src_lines)
    tgt = written(tmp_path / "tgt", b"b\n" * tgt_lines)
    with pytest.raises(CorpusError) as error:
        ParallelFiles(src, tgt).read()
    counts = f"{src} has {src_lines} lines but {tgt} has {tgt_lines}; "
    assert str(error.value).startswith(counts)


def test_pairs_are_streamed_as_often_as_one_likes(tmp_path: Path) -> None:
    files = ParallelFiles(
        written(tmp_path / "src", b"a\nb\n"), written(tmp_path / "tgt", b"c\nd\n")
    )
    first, second = files.pairs(), files.pairs()
    assert next(first) == ("a", "c")
    assert list(second) == [("a", "c"), ("b", "d")]
    assert list(first) == [("b", "d")]


def test_a_sum_is_of_the_bytes_of_both_sides(tmp_path: Path) -> None:
    def source_sha256(src: bytes, tgt: bytes) -> str:
        paths = [written(tmp_path / side, data) for side, data in (("src", src), ("tgt", tgt))]
        return ParallelFiles(*paths).source_sha256()

    known = source_sha256(b"a\nb\n", b"c\n")
    aligned = source_sha256(b"a\nb\n", b"c\nd\n")
    assert ParallelText(["a", "b"], ["c", "d"]).source_sha256() == aligned
    others = [(b"a\n", b"b\nc\n"), (b"a\nb\nc\n", b""), (b"c\n", b"a\nb\n"), (b"a\nB\n", b"c\n")]
    assert known not in {source_sha256(*other) for other in others}


@pytest.mark.posix
def test_what_can_be_read_but_once_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # or opening it would wait for one
    try:
        with pytest.raises(CorpusError, match=f"^{pipe}: a pipe or a device [^\n]+ in a file$"):
            ParallelFiles(pipe, pipe).source_sha256()
    finally:
        os.close(writer)


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    src = written(tmp_path / "src", b"")
    tgt = written(tmp_path / "tgt", b"")
    with pytest.raises(CorpusError) as error:
        ParallelFiles(src, tgt).read()
    assert str(error.value).startswith(f"{src} and {tgt} are empty; ")


def test_blank_lines_go_as_pairs() -> None:
    text = ParallelText(
        ["eins", "", "drei", " \t\u00a0\u2028", "fünf", "  "],
        ["one", "two", "   ", "four", "five", ""],
    )
    kept, left_out = without_blank_pairs(text)
    assert kept == ParallelText(["eins", "fünf"], ["one", "five"])
    assert left_out == 4


def test_text_without_blanks_stays_as_it_is() -> None:
    text = ParallelText([" a ", "b"], ["a", " b"])
    assert without_blank_pairs(text) == (text, 0)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_longest_line_may_be_the_last(end: bytes) -> None:
    line = b"a" * (MAX_LINE_BYTES - len(end)) + end
    assert list(bounded_lines(io.BytesIO(b"b\n" + line), "x")) == [b"b\n", line]
    with pytest.raises(CorpusError, match=r"^x:1: the line is longer than 4 MiB"):
        list(bounded_lines(io.BytesIO(b"a" + line), "x"))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("UTF-16", "Ein Hund läuft.\nJa\n"),
        ("UTF-16LE", "Ein Hund läuft.\nJa\n"),
        ("UTF-16BE", "Ein Hund läuft.\nJa\n"),
        ("UTF-16", "你好，世界 123\n"),  # without a mark, nothing shows it
    ],
)
def test_utf16_is_named(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(CorpusError) as error:
        list(stream_lines(path))
    assert str(error.value) == (
        f"{path}: is UTF-16, not UTF-8; convert it with iconv -f {encoding} -t UTF-8"
    )


def test_a_tar_archive_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "val.de").write_bytes(b"ein\nzwei\n")
    with tarfile.open(tmp_path / "x", "w") as archive:
        archive.add(tmp_path / "val.de", "val.de")
    with pytest.raises(CorpusError, match="x: is a tar archive; unpack it"):
        list(stream_lines(tmp_path / "x"))


def test_mustard_is_no_tar_archive(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a" * 256 + "mustard\nb\n")
    assert len(list(stream_lines(tmp_path / "x"))) == 2

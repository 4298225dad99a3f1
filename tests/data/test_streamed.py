"""Training text is checked once, and read again as often as it takes."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from transformer_cli.data.corpus import ParallelFiles, ParallelText, StreamedText, TextStats
from transformer_cli.errors import CorpusError

TEXT = ParallelText(
    ["eins", "", "drei", " \t\u00a0\u2028", "fünf", "  "],
    ["one", "two", "   ", "four", "five", ""],
)


@dataclass
class Counted:
    """A text that counts how often it is gone through."""

    text: ParallelText
    passes: list[int] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[str, str]]:
        self.passes.append(len(self.text))
        return self.text.pairs()

    def source_sha256(self) -> str:
        return self.text.source_sha256()

    def mtime_key(self) -> str | None:
        return None


def test_blank_pairs_are_counted_and_passed_over() -> None:
    text = StreamedText.of(TEXT)
    sides = (hashlib.sha256(side.encode()).digest() for side in ("eins\nfünf\n", "one\nfive\n"))
    text_sha256 = hashlib.sha256(b"".join(sides)).hexdigest()
    assert text.stats == TextStats(TEXT.source_sha256(), text_sha256, pairs=2, blank=4)
    assert len(text) == len(text.src) == len(text.tgt) == 2
    for _ in range(2):
        assert list(text.src) == ["eins", "fünf"]
        assert list(text.tgt) == ["one", "five"]


def test_a_known_text_is_not_looked_through_again() -> None:
    source = Counted(TEXT)
    stats = StreamedText.of(source).stats
    assert source.passes
    source.passes.clear()
    assert StreamedText.of(source, stats).stats == stats
    assert not source.passes


def test_another_text_is() -> None:
    known = StreamedText.of(TEXT).stats
    other = Counted(ParallelText(["a", "b"], ["c", "d"]))
    assert StreamedText.of(other, known).stats.pairs == 2
    assert other.passes


def test_line_ends_and_blank_pairs_make_no_other_text(tmp_path: Path) -> None:
    both = []
    for number, (src, tgt) in enumerate([(b"a\nb", b"c\nd\n"), (b"a\r\n\nb\n", b"c\n\nd\n")]):
        files = ParallelFiles(tmp_path / f"{number}.src", tmp_path / f"{number}.tgt")
        files.src.write_bytes(src)
        files.tgt.write_bytes(tgt)
        both.append(StreamedText.of(files).stats)
    first, second = both
    assert first.text_sha256 == second.text_sha256
    assert first.source_sha256 != second.source_sha256


def test_trouble_is_found_before_anything_is_read_for_use(tmp_path: Path) -> None:
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    files.src.write_bytes(b"a\nb\n")
    for tgt, said in ((b"a\n", "has 2 lines but"), (b"a\n\xff\n", "tgt:2: not UTF-8")):
        files.tgt.write_bytes(tgt)
        with pytest.raises(CorpusError, match=said):
            StreamedText.of(files)


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    for path in (files.src, files.tgt):
        path.write_bytes(b"a\nb\n")
    text = StreamedText.of(files)
    for path in (files.src, files.tgt):
        path.write_bytes(b"a\nb\nc\n")
    with pytest.raises(CorpusError, match="had 2 pairs and now has 3"):
        list(text.src)

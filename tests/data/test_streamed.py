"""Training text is checked once, and read again as often as it takes."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data import corpus
from transformer_cli.data.corpus import (
    Pairs,
    PairSource,
    ParallelFiles,
    ParallelText,
    StreamedText,
    TextStats,
    keep_full,
)

TEXT = ParallelText(
    ["eins", "", "drei", " \t\u00a0\u2028", "fünf", "  "],
    ["one", "two", "   ", "four", "five", ""],
)


@dataclass
class Counted(PairSource):
    """A text that counts how often it is gone through."""

    text: ParallelText
    passes: list[int] = field(default_factory=list)
    key: str | None = "as it was"

    def pairs(self) -> Iterator[tuple[str, str]]:
        self.passes.append(len(self.text))
        return self.text.pairs()

    def source_sha256(self) -> str:
        return self.text.source_sha256()

    def mtime_key(self) -> str | None:
        return self.key


def test_blank_pairs_are_counted_and_passed_over() -> None:
    text = StreamedText.of(TEXT)
    sides = (hashlib.sha256(side.encode()).digest() for side in ("eins\nfünf\n", "one\nfive\n"))
    block = hashlib.sha256(b"".join(sides)).hexdigest()
    text_sha256 = hashlib.sha256(block.encode()).hexdigest()
    assert text.stats == TextStats(text_sha256, pairs=2, blank=4)
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


@pytest.mark.parametrize("key", ["another", None])
def test_another_text_is(key: str | None) -> None:
    known = StreamedText.of(Counted(TEXT)).stats
    other = Counted(ParallelText(["a", "b"], ["c", "d"]), key=key)
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


# --- shards ---------------------------------------------------------------------------------------

PAIRS = [(f"eins {n}" * (n % 7 > 0), f"one {n}") for n in range(100)]


def write(path: Path, side: int) -> Path:
    text = "".join(f"{pair[side]}\n" for pair in PAIRS).encode()
    path.write_bytes(text)
    return path


def plain(directory: Path) -> ParallelFiles:
    return ParallelFiles(write(directory / "src", 0), write(directory / "tgt", 1))


@pytest.mark.parametrize(
    "source",
    [
        plain,
        lambda directory: ParallelText(*map(list, zip(*PAIRS, strict=True))),
    ],
    ids=["plain", "memory"],
)
def test_a_text_is_the_same_however_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Callable[[Path], PairSource]
) -> None:
    """A source of each kind has the same blocks."""
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 16)
    expected = StreamedText.of(plain(tmp_path))
    text = StreamedText.of(source(tmp_path))
    assert text.stats.text_sha256 == expected.stats.text_sha256
    blocks = list(text.source.blocks())
    assert [len(block) for block in blocks] == [*[16] * 6, 4]
    assert [pair for block in blocks for pair in keep_full(block)] == list(text.pairs())


def test_blocks_of_long_lines_have_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_BLOCK_CHARACTERS", 1000)
    text = ParallelText(["a" * 400] * 10, ["b"] * 10)
    blocks = list(text.blocks())
    assert [len(block) for block in blocks] == [3, 3, 3, 1]
    assert [pair for block in blocks for pair in block] == list(text.pairs())


def test_blocks_that_nobody_needs_any_more_are_not_read() -> None:
    begun: list[str] = []

    def fail(block: Pairs) -> None:
        begun.extend(src for src, _ in block)
        raise CorpusError("damaged")

    blocks = ([(str(number), "x")] for number in range(30))
    with ThreadPoolExecutor(1) as executor, pytest.raises(CorpusError):
        list(corpus.map_blocks(executor, fail, blocks))
    assert len(begun) < 30


@pytest.mark.parametrize("workers", [0, 3])
def test_blocks_are_mapped_in_order_and_few_are_read_ahead(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "_BLOCKS_AHEAD", 5)
    read: list[int] = []

    def blocks() -> Iterator[Pairs]:
        for number in range(30):
            read.append(number)
            yield [(str(number), "x")]

    with ThreadPoolExecutor(workers) if workers else SerialExecutor() as executor:
        results = corpus.map_blocks(executor, lambda block: block[0][0], blocks())
        for number, found in enumerate(results):
            assert found == str(number)
            assert len(read) <= number + 1 + (5 if workers else 0)


@pytest.mark.parametrize(
    ("pairs", "letterless", "copied"),
    [
        ([("1 2", "3"), ("Hund", "dog")], True, False),
        ([("1 2", "1 2")] + [("Hund", "dog")] * 9, False, False),
        ([("Oslo", "Oslo"), ("Hund", "hund")], False, True),
    ],
)
def test_what_a_model_has_to_learn_is_measured(
    pairs: list[tuple[str, str]], letterless: bool, copied: bool
) -> None:
    src, tgt = zip(*[*pairs, ("\u200b", "x")], strict=True)
    stats = StreamedText.of(ParallelText(list(src), list(tgt))).stats
    assert (stats.pairs, stats.blank) == (len(pairs), 1)
    assert (stats.letterless, stats.copied) == (letterless, copied)

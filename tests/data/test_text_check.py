"""What looks at a text in the pass that reads it anyway, block by block."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from transformer_cli.data import corpus
from transformer_cli.data.corpus import (
    BlockStats,
    ConcatenatedSources,
    PairSource,
    ParallelFiles,
    ParallelText,
    StreamedText,
)


@dataclass
class Longest:
    """Finds the longest source; a ``Look``."""

    source: str = ""

    def look(self, batch: Sequence[tuple[str, str]]) -> None:
        self.source = max(self.source, *(src for src, _ in batch), key=len)


@dataclass
class Recorder:
    """A ``TextCheck`` that keeps what it is given."""

    began: list[PairSource] = field(default_factory=list)
    seen: list[tuple[str, int]] = field(default_factory=list)

    def begin(self, source: PairSource, executor: Executor) -> Longest:
        self.began.append(source)
        return Longest()

    def merge(self, look: Longest, stats: BlockStats) -> None:
        self.seen.append((look.source, stats.full))


def test_a_check_sees_each_block_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 2)
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    files.src.write_text("a\nbbb\n\ncc\nd\n")
    files.tgt.write_text("1\n2\n3\n4\n5\n")
    added = ParallelText(["eeee"], ["6"])
    check = Recorder()
    source = ConcatenatedSources((files, added))
    text = StreamedText.of(source, checks=[check])
    assert check.began == [files, added]
    assert check.seen == [("bbb", 2), ("cc", 1), ("d", 1), ("eeee", 1)]
    assert text.stats == StreamedText.of(source).stats


def test_a_known_text_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    files.src.write_text("a\n")
    files.tgt.write_text("1\n")
    monkeypatch.setattr(ParallelFiles, "mtime_key", lambda _: "as it was")
    known = StreamedText.of(files).stats
    check = Recorder()
    StreamedText.of(files, known, checks=[check])
    assert check.began == []

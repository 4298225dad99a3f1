"""Text of several sources."""

import pytest

from transformer_cli.data import corpus
from transformer_cli.data.corpus import ParallelText, StreamedText
from transformer_cli.extensions.corpora.opening import ExtendedText


def test_each_source_is_cut_and_counted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 4)
    train = ParallelText(["a", "", "b", "c", "d", "e"], ["A", "B", "C", "D", "E", "F"])
    more = ParallelText(["f", "g"], ["G", "H"])
    text = StreamedText.of(ExtendedText((train, more), ("more",)))
    assert text.source.parts == {"train": train, "more": more}
    assert text.stats.parts == [5, 2]
    assert [len(block) for block in text.source.blocks()] == [4, 2, 2]
    assert list(text.pairs()) == [pair for pair in [*train.pairs(), *more.pairs()] if pair[0]]

"""Text as a stream: a record a line, whatever the chunks."""

from collections.abc import Iterator

import pytest

from inference.translators import LINES, numbers, random_translator, translate_stream
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translator import CHUNK_LINES, Watcher

# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
def test_a_stream_gives_a_line_for_a_line(count: int) -> None:
    translator = random_translator().with_search(max_length=4)
    lines = LINES[:count]
    expected = translator.translate(lines)
    records = translate_stream(translator, iter(lines), chunk_lines=3)
    assert [best.text for best, *_ in records] == expected


def test_a_stream_reads_no_further_than_its_chunk() -> None:
    read: list[str] = []

    def reading() -> Iterator[str]:
        for line in LINES:
            read.append(line)
            yield line

    translator = random_translator().with_search(max_length=4)
    translations = translate_stream(translator, reading(), chunk_lines=3)
    assert len(read) == 0
    reads_before_each = []
    for _ in translations:
        reads_before_each.append(len(read))
    assert reads_before_each == [3, 3, 3, 6, 6, 6, 7]


def test_a_line_too_long_for_learned_positions_is_cut_and_told_by_its_place_in_the_stream() -> None:
    translator = random_translator(positions="learned")
    lines = ["5", "", numbers(11), "6", "7", numbers(12), "8", numbers(30)]
    cuts: list[str] = []
    records = translate_stream(
        translator, lines, chunk_lines=4, watcher=Watcher(on_long_line=cuts.append)
    )
    translations = [best.text for best, *_ in records]
    assert cuts == [
        "line 6: 12 tokens, translated in 2 pieces",
        "line 8: 30 tokens, translated in 3 pieces",
    ]
    six, ten = translator.translate([numbers(6), numbers(10)])
    assert translations[5] == " ".join(filter(None, [six] * 2))
    assert translations[7] == " ".join(filter(None, [ten] * 3))
    for index in (0, 1, 2, 3, 4, 6):
        assert [translations[index]] == translator.translate([lines[index]])


# --- progress -------------------------------------------------------------------------------------


def test_lines_count_as_soon_as_the_engine_has_finished_them() -> None:
    translator = random_translator(positions="learned").with_search(max_length=4, batch_tokens=12)
    lines = ["5", "", numbers(30), "6", "7", "8"]
    finished: list[int] = []
    records = translate_stream(
        translator,
        lines,
        n_best=1,
        chunk_lines=4,
        reads_ahead=True,
        watcher=Watcher(finished.append),
    )
    next(records)
    assert len(finished) > 2, "batches are not reported before the chunk is done"
    list(records)
    assert sum(finished) == len(lines)


def test_a_gpu_translates_more_lines_together(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = random_translator()
    assert translator.chunk_lines == CHUNK_LINES
    monkeypatch.setattr(TorchEngine, "is_on_gpu", True)
    assert translator.chunk_lines > CHUNK_LINES

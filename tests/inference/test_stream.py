"""Text as a stream: a record a line, whatever the chunks, and prefixes line by line."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from time import sleep
from typing import Any

import pytest

from inference.translators import LINES, numbers, random_translator, translate_stream
from transformer_cli.base.errors import InputError
from transformer_cli.inference import stream
from transformer_cli.inference.stream import CHUNK_LINES, chunk_lines_of
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translation import EncodedLine, LongLine, Translation, Watcher
from transformer_cli.inference.translator import TextTranslator


def unforced(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((line, "") for line in lines)


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
def test_a_stream_gives_a_line_for_a_line(count: int) -> None:
    translator = random_translator().with_search(max_length=4)
    lines = LINES[:count]
    expected = translator.translate(lines)
    records = translate_stream(translator, unforced(iter(lines)), chunk_lines=3)
    assert [best.text for best, *_ in records] == expected


def test_a_prefix_that_is_too_long_is_named_by_its_line() -> None:
    translator = random_translator(positions="learned")
    lines = [("5", ""), ("5", "9 9"), ("5", numbers(12))]
    with pytest.raises(InputError, match=r"^prefix of line 9: 12 tokens"):
        list(translate_stream(translator, iter(lines), chunk_lines=1, first_line=7))


def test_a_stream_reads_no_further_than_its_chunk() -> None:
    read: list[str] = []

    def reading() -> Iterator[str]:
        for line in LINES:
            read.append(line)
            yield line

    translator = random_translator().with_search(max_length=4)
    translations = translate_stream(translator, unforced(reading()), chunk_lines=3)
    assert len(read) == 0
    reads_before_each = []
    for _ in translations:
        reads_before_each.append(len(read))
    assert reads_before_each == [3, 3, 3, 6, 6, 6, 7]


@pytest.fixture
def searching_at_once(monkeypatch: pytest.MonkeyPatch) -> TextTranslator[TorchEngine]:
    monkeypatch.setattr(TorchEngine, "searches_at_once", True)
    return random_translator().with_search(max_length=4)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_reading_ahead_changes_nothing(
    count: int, searching_at_once: TextTranslator[TorchEngine]
) -> None:
    lines = LINES[:count]
    records = translate_stream(searching_at_once, unforced(lines), chunk_lines=3, reads_ahead=True)
    assert [best.text for best, *_ in records] == searching_at_once.translate(lines)


def test_what_is_wrong_ahead_is_raised_after_what_comes_before_it(
    searching_at_once: TextTranslator[TorchEngine],
) -> None:
    def reading() -> Iterator[str]:
        yield from LINES[:4]
        raise InputError("line 5")

    records = translate_stream(
        searching_at_once, unforced(reading()), chunk_lines=2, reads_ahead=True
    )
    assert len(list(islice(records, 4))) == 4
    with pytest.raises(InputError, match="line 5"):
        next(records)


@pytest.mark.parametrize("signalled", [KeyboardInterrupt, SystemExit])
def test_what_is_finished_comes_out_before_a_signal_ends_the_stream(
    signalled: type[BaseException],
    searching_at_once: TextTranslator[TorchEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks: list[Future[Any]] = []

    class Recording(ThreadPoolExecutor):
        def submit(self, *call: Any, **options: Any) -> Future[Any]:
            blocks.append(super().submit(*call, **options))
            return blocks[-1]

    def reading() -> Iterator[str]:
        yield from LINES[:2]
        assert blocks[1].exception() is None  # the second block is done, and nobody has it yet
        raise signalled

    monkeypatch.setattr(stream, "ThreadPoolExecutor", Recording)
    records = translate_stream(
        searching_at_once, unforced(reading()), chunk_lines=1, reads_ahead=True
    )
    texts: list[str] = []
    with pytest.raises(signalled):
        texts.extend(best.text for best, *_ in records)
    assert len(texts) == 2


def test_no_result_comes_after_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may arrive between taking a result and yielding it."""
    taken: list[object] = []

    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            taken.append(super().popleft())
            if len(taken) == 2:
                self[0].result()  # the next one is done
                raise KeyboardInterrupt
            return taken[-1]

    monkeypatch.setattr(stream, "deque", Interrupted)
    jobs = iter([lambda: "a", lambda: "b", lambda: "c", lambda: "d"])
    results: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        results.extend(stream._run_ahead(jobs, lambda: None))
    assert results == ["a"]


def test_what_nobody_reads_any_more_is_not_searched(
    searching_at_once: TextTranslator[TorchEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searching_at_once.translate_lines(LINES[:1])

    def search(lines: list[EncodedLine], *options: Any) -> list[list[Translation]]:
        should_stop = options[-1].should_stop
        while lines[0].text == LINES[1] and not should_stop():
            sleep(0.01)
        return found

    monkeypatch.setattr(TextTranslator, "translate_encoded", lambda _, *args: search(*args))
    records = translate_stream(searching_at_once, unforced(LINES), chunk_lines=1, reads_ahead=True)
    assert next(records) == found[0]
    records.close()  # type: ignore[attr-defined]


def test_a_line_too_long_for_learned_positions_is_cut_and_told_by_its_place_in_the_stream() -> None:
    translator = random_translator(positions="learned")
    lines = ["5", "", numbers(11), "6", "7", numbers(12), "8", numbers(30)]
    cuts: list[LongLine] = []
    records = translate_stream(
        translator, unforced(lines), chunk_lines=4, watcher=Watcher(on_long_line=cuts.append)
    )
    translations = [best.text for best, *_ in records]
    assert cuts == [LongLine(line=6, tokens=12, pieces=2), LongLine(line=8, tokens=30, pieces=3)]
    assert str(cuts[0]) == "line 6: 12 tokens, translated in 2 pieces"
    six, ten = translator.translate([numbers(6), numbers(10)])
    assert translations[5] == " ".join(filter(None, [six] * 2))
    assert translations[7] == " ".join(filter(None, [ten] * 3))
    for index in (0, 1, 2, 3, 4, 6):
        assert [translations[index]] == translator.translate([lines[index]])


# --- progress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [False, True])
def test_lines_count_as_soon_as_the_engine_has_finished_them(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchEngine, "searches_at_once", at_once)
    translator = random_translator(positions="learned").with_search(max_length=4, batch_tokens=12)
    lines = ["5", "", numbers(30), "6", "7", "8"]
    finished: list[int] = []
    records = translate_stream(
        translator,
        unforced(lines),
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
    assert chunk_lines_of(translator) == CHUNK_LINES
    monkeypatch.setattr(TorchEngine, "is_on_gpu", True)
    assert chunk_lines_of(translator) > CHUNK_LINES

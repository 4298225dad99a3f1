"""Chunks of a stream that are searched two at a time."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from time import sleep
from typing import Any

import pytest
from inference.translators import LINES, random_translator, translate_stream

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.ctranslate2 import running_ahead
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Translator
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import TextTranslator, Watcher


@pytest.fixture
def searching_at_once() -> TextTranslator[TorchEngine]:
    return random_translator().with_search(max_length=4).extended_by(CTranslate2Translator)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_reading_ahead_changes_nothing(
    count: int, searching_at_once: TextTranslator[TorchEngine]
) -> None:
    lines = LINES[:count]
    records = translate_stream(searching_at_once, lines, chunk_lines=3, reads_ahead=True)
    assert [best.text for best, *_ in records] == searching_at_once.translate(lines)


def test_what_is_wrong_ahead_is_raised_after_what_comes_before_it(
    searching_at_once: TextTranslator[TorchEngine],
) -> None:
    def reading() -> Iterator[str]:
        yield from LINES[:4]
        raise InputError("line 5")

    records = translate_stream(searching_at_once, reading(), chunk_lines=2, reads_ahead=True)
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

    monkeypatch.setattr(running_ahead, "ThreadPoolExecutor", Recording)
    records = translate_stream(searching_at_once, reading(), chunk_lines=1, reads_ahead=True)
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

    monkeypatch.setattr(running_ahead, "deque", Interrupted)
    jobs = iter([lambda: "a", lambda: "b", lambda: "c", lambda: "d"])
    results: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        results.extend(running_ahead.run_ahead(jobs, lambda: None))
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
    records = translate_stream(searching_at_once, LINES, chunk_lines=1, reads_ahead=True)
    assert next(records) == found[0]
    records.close()  # type: ignore[attr-defined]


def test_lines_count_as_soon_as_they_are_finished(
    searching_at_once: TextTranslator[TorchEngine],
) -> None:
    translator = searching_at_once.with_search(batch_tokens=12)
    finished: list[int] = []
    watcher = Watcher(finished.append)
    lines = [*LINES, ""]
    records = translate_stream(translator, lines, chunk_lines=4, reads_ahead=True, watcher=watcher)
    next(records)
    assert len(finished) > 2, "batches are not reported before the chunk is done"
    list(records)
    assert sum(finished) == len(LINES) + 1

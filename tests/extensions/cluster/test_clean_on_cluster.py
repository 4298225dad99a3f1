"""Cleaning on a Dask cluster ends in the same bytes as alone, whatever is lost on the way."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from extensions.cluster.dask_cluster import CAN_CUT, DaskCluster
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.extensions.cluster.cluster import open_cluster, read_cluster
from transformer_cli.extensions.corpora import preparing
from transformer_cli.extensions.corpora.preparing import clean_corpus
from transformer_cli.extensions.corpora.settings import CorpusData

Pairs = Iterable[tuple[str, str]]


def corpus(directory: Path, pairs: int) -> CorpusData:
    """A corpus of two files, a seventh of which repeats what is before."""
    for name, word in (("de", "Satz"), ("en", "sentence")):
        numbers = (n - pairs // 2 if n % 7 == 6 else n for n in range(pairs))
        lines = "".join(f"{word} {n} {'x' * (n % 23)}\n" for n in numbers)
        (directory / f"all.{name}").write_text(lines)
    source = {"src": str(directory / "all.de"), "tgt": str(directory / "all.en")}
    return CorpusData.model_validate(
        {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": [source]}
        | {"split": {"val": 20, "test": 20}}
        | {"filters": ["length", "length_ratio", "numbers", "duplicates"]}
    )


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.*")}


def losing(events: dict[int, Callable[[], object]]) -> Callable[[Pairs, str, str], Pairs]:
    """A progress bar that has something happen when so many pairs are read."""

    def progress(pairs: Pairs, label: str, unit: str) -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(pairs):
            events.get(number, lambda: None)()
            yield pair

    return progress


@pytest.mark.long
def test_a_killed_and_a_stopped_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus(tmp_path, 1000)
    clean_corpus(data, tmp_path / "alone", SerialExecutor())
    monkeypatch.setattr(preparing, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(preparing, "PART_PAIRS", 50)
    with DaskCluster(tmp_path) as dask:
        killed, stopped, _ = (dask.start_worker() for _ in range(3))
        progress = losing({100: killed.kill, 200: stopped.stop})
        monkeypatch.setattr(preparing, "show_progress", progress)
        with open_cluster(read_cluster(dask.address), print) as cluster:
            clean_corpus(data, tmp_path / "out", cluster)
            stopped.go_on()  # and what it writes now is nowhere
        assert files(tmp_path / "out") == files(tmp_path / "alone")
    assert not [*tmp_path.glob("*.partial-*")]


@pytest.mark.long
def test_a_million_pairs_with_all_that_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corpus(tmp_path, 1_000_000)
    clean_corpus(data, tmp_path / "alone", SerialExecutor())
    with DaskCluster(tmp_path) as dask:
        killed, stopped = dask.start_worker(), dask.start_worker()
        cut = dask.start_worker(apart=CAN_CUT)

        def lose_scheduler() -> None:
            dask.scheduler.kill()
            dask.start_scheduler()
            dask.start_worker()

        progress = losing(
            {
                100_000: killed.kill,
                200_000: cut.cut if CAN_CUT else dask.start_worker,
                300_000: dask.start_worker,
                500_000: stopped.stop,
                700_000: lose_scheduler,
            }
        )
        monkeypatch.setattr(preparing, "show_progress", progress)
        with open_cluster(read_cluster(dask.address), print) as cluster:
            clean_corpus(data, tmp_path / "out", cluster)
            stopped.go_on()
            if CAN_CUT:
                cut.mend()
        assert files(tmp_path / "out") == files(tmp_path / "alone")
    assert not [*tmp_path.glob("*.partial-*")]

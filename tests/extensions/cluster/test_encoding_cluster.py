"""A training text that a cluster checks and encodes is the same, whatever is lost on the way."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lost_worker import load_or_die

from extensions.cluster.dask_cluster import DaskCluster
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data import corpus
from transformer_cli.data.corpus import ParallelFiles, StreamedText
from transformer_cli.data.store import Load, write_store
from transformer_cli.extensions.cluster.cluster import open_cluster, read_cluster
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers

LINES = [f"{n} Hunde und {n * 7 % 13} Katzen" * (n % 9 > 0) for n in range(60)]
SUBWORDS = SentencePieceConfig(kind="sentencepiece", vocab_size=40, byte_fallback=False)


@pytest.mark.long
@pytest.mark.posix
def test_a_lost_worker_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for lost_worker
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 8)
    monkeypatch.setattr(corpus, "MIN_PAIRS_FOR_WORKERS", 1)
    monkeypatch.chdir(tmp_path)  # where the workers are not
    for name in ("src", "tgt"):
        Path(name).write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "tokenizer").mkdir()
    learn_tokenizers(
        SUBWORDS,
        TrainingText("de", "de", LINES, LINES, "sum"),
        Path("tokenizer"),
    )
    files = ParallelFiles(Path("src"), Path("tgt"))
    alone = StreamedText.of(files)

    def encode(name: str, load: Load, executor: Any) -> list[bytes]:
        write_store(Path(name), alone, load, "print", executor, 7)
        return [Path(name, file).read_bytes() for file in ("ids", "pages")]

    load = partial(load_or_die, tmp_path / "tokenizer", tmp_path / "died")
    with DaskCluster(tmp_path) as dask:
        workers = [dask.start_worker(), dask.start_worker()]
        with open_cluster(read_cluster(dask.address), print) as cluster:
            there = StreamedText.of(files, executor=cluster).stats
            assert replace(there, mtime_key=None) == replace(alone.stats, mtime_key=None)
            found = encode("there", load, cluster)
        assert [worker.process.poll() is None for worker in workers].count(True) == 1
    assert found == encode("here", load, None)

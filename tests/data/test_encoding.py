"""Encoding gives the same bytes wherever it is done, and no process outlives its maker."""

import subprocess
import sys
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import CorpusError, TokenizerError
from transformer_cli.base.workers import SerialExecutor, find_executor
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data import corpus
from transformer_cli.data.corpus import ParallelFiles, ParallelText, StreamedText
from transformer_cli.data.store import Load, load_once, write_store
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers, load_tokenizers

SRC = [f"{n} Hunde, {n * 7 % 13} Katzen \u2028 und ein Vogel" * (n % 9 > 0) for n in range(60)]
TGT = [f"{n} dogs, {n * 7 % 13} cats and a bird" for n in range(60)]
SUBWORDS = SentencePieceConfig(kind="sentencepiece", vocab_size=60, byte_fallback=False)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    learn_tokenizers(SUBWORDS, TrainingText("de", "en", SRC, TGT, "sum"), directory)
    return directory


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParallelFiles:
    """The text in files, of eight blocks."""
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 8)
    monkeypatch.setattr(corpus, "MIN_PAIRS_FOR_WORKERS", 1)
    for name, lines in (("src", SRC), ("tgt", TGT)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return ParallelFiles(tmp_path / "src", tmp_path / "tgt")


def bytes_of(store: Path) -> list[bytes]:
    names = {"ids", "pages"}
    assert {path.name for path in store.iterdir()} == {*names, "store.json"}
    return [(store / name).read_bytes() for name in sorted(names)]


def encode(
    directory: Path, text: StreamedText, load: Load, executor: Executor | None = None
) -> list[bytes]:
    write_store(directory, text, load, "print", executor, page_pairs=7)
    return bytes_of(directory)


class Twice(SerialExecutor):
    """Makes each call twice, as where a worker was given up too early."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        fn(*args, **kwargs)
        return super().submit(fn, *args, **kwargs)


def test_the_store_is_the_same_however_it_is_encoded(
    tmp_path: Path, files: ParallelFiles, tokenizers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load_tokenizers(tokenizers)
    load = partial(load_once, tokenizers, "print")
    text = StreamedText.of(files)
    in_memory = StreamedText.of(ParallelText(SRC, TGT))
    expected = encode(tmp_path / "here", text, lambda: made)
    assert encode(tmp_path / "memory", in_memory, load) == expected
    assert encode(tmp_path / "twice", text, load, Twice()) == expected
    with find_executor((), tmp_path)() as pool:
        there = StreamedText.of(files, executor=pool).stats
        assert replace(there, mtime_key=None) == replace(text.stats, mtime_key=None)
        assert encode(tmp_path / "processes", text, load, pool) == expected
    for block in (1, 2, 59, 60, 1000):
        monkeypatch.setattr(corpus, "BLOCK_PAIRS", block)
        assert encode(tmp_path / f"{block}", StreamedText.of(files), load) == expected


# --- trouble --------------------------------------------------------------------------------------


def test_a_workers_trouble_is_one_line(tmp_path: Path, files: ParallelFiles) -> None:
    missing = tmp_path / "tokenizer"
    load = partial(load_once, missing, "print")
    with (
        pytest.raises(TokenizerError, match=f"^{missing}[^\n]*cannot be read"),
        find_executor((), tmp_path)() as pool,
    ):
        encode(tmp_path / "store", StreamedText.of(files), load, pool)
    assert not (tmp_path / "store").exists()


@pytest.mark.long
def test_a_mistake_of_ours_is_told_too(tmp_path: Path, files: ParallelFiles) -> None:
    with (
        pytest.raises(TokenizerError, match=r"^the training text cannot be encoded [^\n]*$"),
        find_executor((), tmp_path)() as pool,
    ):
        encode(tmp_path / "store", StreamedText.of(files), dict, pool)  # type: ignore[arg-type]


def test_text_that_has_lost_pairs_is_noticed(
    tmp_path: Path, files: ParallelFiles, tokenizers: Path
) -> None:
    text = StreamedText.of(files)
    files.src.write_text(files.src.read_text().replace(SRC[-1], " "))
    with pytest.raises(CorpusError, match="changed during reading"):
        encode(tmp_path / "store", text, partial(load_once, tokenizers, "print"))


def test_workers_import_no_torch(tokenizers: Path) -> None:
    code = (
        "import sys; from transformer_cli.data import store; "
        "from transformer_cli.text.tokenizer import load_tokenizers; from pathlib import Path; "
        f"load_tokenizers(Path({str(tokenizers)!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

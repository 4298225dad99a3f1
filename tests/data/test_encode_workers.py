"""Encoding by several processes gives the same bytes, and no process outlives its maker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import start
from transformer_cli.data.encode_workers import choose_encoder, encode_in_workers

from transformer_cli.config.tokenizer_schema import (
    SentencePieceConfig,
    TokenizerConfig,
    WordsConfig,
)
from transformer_cli.data import encode_workers
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.encoding import write_store
from transformer_cli.data.store import encode_serially
from transformer_cli.data.token_arrays import EncodedText, Pairs
from transformer_cli.data.training_text import StreamedText
from transformer_cli.errors import TokenizerError, WorkerError
from transformer_cli.text.tokenizer import learn_tokenizers, load_tokenizers

SRC = [f"{n} Hunde, {n * 7 % 13} Katzen \u2028 und ein Vogel" for n in range(40)]
TGT = [f"{n} dogs, {n * 7 % 13} cats and a bird" for n in range(40)]
WORDS = WordsConfig(kind="words", min_freq=1)
SUBWORDS = SentencePieceConfig(kind="sentencepiece", vocab_size=60, byte_fallback=False)

# What a test of its own processes starts: an encoder of endless text, as a program's main module.
ENDLESS = """
import sys
from itertools import repeat
from pathlib import Path
from transformer_cli.data.encode_workers import encode_in_workers

if __name__ == "__main__":
    pages = encode_in_workers(repeat([("ein Hund", "a dog")] * 50), Path(sys.argv[1]), 2)
    for number, _ in enumerate(pages):
        if number == 5:
            print("encoding", flush=True)
        if number == 9 and sys.argv[2] == "fails":
            raise RuntimeError("elsewhere than in the encoder")
"""


def learn(directory: Path, config: TokenizerConfig = SUBWORDS) -> Path:
    directory.mkdir()
    learn_tokenizers(config, "de", "en", SRC, TGT, "sum", directory, lambda lines, _: lines)
    return directory


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learn(tmp_path_factory.mktemp("encoding") / "tokenizer")


def pages(count: int) -> Iterator[Pairs]:
    pairs = list(zip(SRC, TGT, strict=True))
    for number in range(count):
        # Of very different sizes, the last ones larger than a pipe holds.
        yield pairs[: 1 + number] * (1 if number < 9 else 400)


def arrays(page: EncodedText) -> list[list[int]]:
    return [part.tolist() for side in (page.src, page.tgt) for part in (side.ids, side.offsets)]


def bytes_of(store: Path) -> list[bytes]:
    return [(store / name).read_bytes() for name in ("ids", "pages", "lines")]


def children() -> set[int]:
    """Processes that this one has started and that have not ended, but for Python's helpers."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = status.read_text().split(" (", 1)
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        state, parent = rest.rsplit(")", 1)[1].split()[:2]
        if int(parent) == os.getpid() and state != "Z" and b"spawn_main" in command:
            found.add(int(number))
    return found


@pytest.mark.parametrize("config", [SUBWORDS, WORDS], ids=["subwords", "words"])
def test_the_store_is_the_same_either_way(tmp_path: Path, config: TokenizerConfig) -> None:
    directory = learn(tmp_path / "tokenizer", config)
    text = StreamedText.of(ParallelText(SRC, TGT))
    made = load_tokenizers(directory)
    encoders = {
        "here": lambda each: encode_serially(each, made),
        "processes": lambda each: encode_in_workers(each, directory, 3),
    }
    for name, encode in encoders.items():
        write_store(tmp_path / name, text, encode, "print", lambda lines, _: lines, page_pairs=7)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "processes")
    assert children() == set()


@pytest.mark.parametrize("count", [0, 1, 2, 13])
def test_order_is_kept_whatever_a_page_takes(tokenizers: Path, count: int) -> None:
    expected = list(encode_serially(pages(count), load_tokenizers(tokenizers)))
    found = list(encode_in_workers(pages(count), tokenizers, 3))
    assert list(map(arrays, found)) == list(map(arrays, expected))
    assert children() == set()


def test_few_pages_are_held(tokenizers: Path) -> None:
    taken = 0

    def watched() -> Iterator[Pairs]:
        nonlocal taken
        for page in pages(30):
            taken += 1
            yield page[:3]

    for given, _ in enumerate(encode_in_workers(watched(), tokenizers, 2), start=1):
        assert taken <= given + 2


def test_small_texts_are_encoded_here(tokenizers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def watched(pages: object, directory: Path, processes: int) -> Iterator[EncodedText]:
        used.append(processes)
        return iter(())

    monkeypatch.setattr(encode_workers, "encode_in_workers", watched)
    monkeypatch.setattr(encode_workers, "count_cores", lambda: 8)
    made = load_tokenizers(tokenizers)
    list(choose_encoder(made, tokenizers, 49_999)([]))
    assert used == []
    list(choose_encoder(made, tokenizers, 50_000)([]))
    assert used == [8]
    monkeypatch.setattr(encode_workers, "count_cores", lambda: 1)
    list(choose_encoder(made, tokenizers, 50_000)([]))
    assert used == [8]


# --- trouble --------------------------------------------------------------------------------------


def test_a_workers_trouble_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "tokenizer"
    with pytest.raises(TokenizerError, match=f"^{missing}[^\n]*cannot be read"):
        list(encode_in_workers(pages(9), missing, 2))
    assert children() == set()


def test_a_mistake_of_ours_is_told_too(tokenizers: Path) -> None:
    broken: list[Pairs] = [[(1, 2)]] * 3  # type: ignore[list-item]
    with pytest.raises(TokenizerError, match=f"^{tokenizers}: cannot encode [^\n]*$"):
        list(encode_in_workers(broken, tokenizers, 2))
    assert children() == set()


@pytest.mark.posix
def test_a_killed_worker_is_one_line(tokenizers: Path) -> None:
    encoded = encode_in_workers(pages(1_000), tokenizers, 2)
    next(encoded)
    os.kill(min(children()), signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"^a worker process was killed, or has crashed; [^\n]*$"):
        list(encoded)
    assert children() == set()


def test_text_that_cannot_be_read_on_ends_all_workers(tokenizers: Path) -> None:
    def broken() -> Iterator[Pairs]:
        yield from pages(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(encode_in_workers(broken(), tokenizers, 2))
    assert children() == set()


def test_workers_import_no_torch(tokenizers: Path) -> None:
    code = (
        "import sys; from transformer_cli.data import encode_workers; "
        "from transformer_cli.text.tokenizer import load_tokenizers; from pathlib import Path; "
        f"load_tokenizers(Path({str(tokenizers)!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_however_the_program_ends_its_workers_do(
    tokenizers: Path, tmp_path: Path, name: str
) -> None:
    number = signal.Signals[name]
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    command = [sys.executable, str(script), str(tokenizers), "goes on"]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"encoding\n"
    assert len(in_session(process.pid)) >= 3
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C does
    else:
        process.send_signal(number)
    # When the last process is gone, nobody holds stderr's other end.
    _, said = process.communicate(timeout=60)
    assert b"leaked" not in said
    # A traceback of the script's own, which does not know what to do with Ctrl-C, and no other.
    assert said.count(b"Traceback") == (number == signal.SIGINT)
    assert process.returncode == -number
    deadline = time.monotonic() + 60
    while in_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert in_session(process.pid) == set()


def test_trouble_elsewhere_leaves_no_worker(tokenizers: Path, tmp_path: Path) -> None:
    """The traceback keeps the encoder, and so its pipes, until the interpreter ends."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    command = [sys.executable, str(script), str(tokenizers), "fails"]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.count(b"Traceback") == 1


def in_session(leader: int) -> set[int]:
    """Processes of a session that have not ended."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *_ = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.add(int(status.parent.name))
    return found

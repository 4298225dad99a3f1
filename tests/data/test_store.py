"""Encoded text on disk is what was encoded, or it is not used."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from letters import LettersFrom

from transformer_cli.data import store as store_module
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.encoded import TokenStore, encode_text
from transformer_cli.data.store import EncodedStore, open_store, stored_survey, write_store
from transformer_cli.data.streamed import StreamedText
from transformer_cli.errors import CorpusError, RunError
from transformer_cli.text.tokenizer import Tokenizers

TOKENIZERS = Tokenizers(src=LettersFrom("a"), tgt=LettersFrom("A"))
TEXT = ParallelText([*"abcdefg", "ab" * 9], ["AAA", "B", "CB", "D", "E" * 30, "F", "GG", "H"])
TEXT_SUM = StreamedText.of(TEXT).survey.text_sum
NAMES = {"src.ids", "src.offsets", "tgt.ids", "tgt.offsets", "store.json"}


def quiet(lines: Iterable[str], label: str) -> Iterable[str]:
    return lines


def contents(store: TokenStore) -> list[list[int]]:
    return [store[index].tolist() for index in range(len(store))]


def stored(directory: Path, text: ParallelText = TEXT) -> EncodedStore:
    write_store(directory, StreamedText.of(text), TOKENIZERS, "print", quiet)
    store = open_store(directory, StreamedText.of(text).survey.text_sum, "print")
    assert store is not None
    return store


@given(
    st.lists(st.tuples(st.text("abc", min_size=1), st.text("XYZ", min_size=1)), max_size=9),
    st.integers(1, 4),
    st.data(),
)
def test_what_is_read_is_what_was_encoded(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[str, str]],
    chunk: int,
    data: st.DataObject,
) -> None:
    text = ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_CHUNK", chunk)
        store = stored(tmp_path_factory.mktemp("store") / "encoded", text)
        counts = store.tgt.length_counts()
    cuts = data.draw(st.lists(st.integers(0, len(pairs)), min_size=2, max_size=6).map(sorted))
    runs = [range(cuts[at], cuts[at + 1]) for at in range(0, len(cuts) - 1, 2)]
    indices = [index for run in runs for index in run]
    expected, found = encode_text(text, TOKENIZERS, quiet), store.read(runs)
    assert contents(found.src) == [expected.src[index].tolist() for index in indices]
    assert contents(found.tgt) == [expected.tgt[index].tolist() for index in indices]
    for lengths, side in zip(store.lengths(runs), (found.src, found.tgt), strict=True):
        assert lengths.tolist() == side.lengths.tolist()
    assert (len(store), store.src.tokens) == (len(pairs), len(expected.src.ids))
    assert np.repeat(np.arange(len(counts)), counts).tolist() == sorted(expected.tgt.lengths)


def test_the_files_are_little_endian_and_no_more(tmp_path: Path) -> None:
    stored(tmp_path / "encoded", ParallelText(["ab", "c"], ["B", "ZA"]))
    files = {path.name: path.read_bytes() for path in (tmp_path / "encoded").iterdir()}
    assert set(files) == NAMES
    assert files["src.ids"] == b"\0\0\0\0\1\0\0\0\2\0\0\0"
    assert files["tgt.offsets"] == bytes([*[0] * 8, 1, *[0] * 7, 3, *[0] * 7])
    assert [path.name for path in tmp_path.iterdir()] == ["encoded"]


def test_blank_pairs_are_not_stored_but_known(tmp_path: Path) -> None:
    text = ParallelText(["a", " ", "c"], ["X", "Y", ""])
    assert len(stored(tmp_path / "encoded", text)) == 1
    assert stored_survey(tmp_path / "encoded") == StreamedText.of(text).survey


def test_another_text_or_tokenizer_does_not_fit(tmp_path: Path) -> None:
    stored(tmp_path / "encoded")
    assert open_store(tmp_path / "encoded", "another", "print") is None
    assert open_store(tmp_path / "encoded", TEXT_SUM, "another") is None


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
    ],
    ids=["cut off", "too long", "empty", "a bit flipped"],
)
def test_a_damaged_store_is_none(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / name
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    if name == "store.json" and damage(whole).strip() == whole.strip():
        return
    assert open_store(tmp_path / "encoded", TEXT_SUM, "print") is None
    path.unlink()
    assert open_store(tmp_path / "encoded", TEXT_SUM, "print") is None


@pytest.mark.parametrize(
    ("key", "value"), [("format", 2), ("pairs", "8"), ("surprise", 1), ("sha256", {})]
)
def test_a_description_is_read_strictly(tmp_path: Path, key: str, value: object) -> None:
    stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert open_store(tmp_path / "encoded", TEXT_SUM, "print") is None


def test_no_store_is_none(tmp_path: Path) -> None:
    assert open_store(tmp_path / "encoded", TEXT_SUM, "print") is None
    assert stored_survey(tmp_path / "encoded") is None


def test_a_text_that_changes_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    for path in (files.src, files.tgt):
        path.write_text("a\nb\n")
    text = StreamedText.of(files)
    files.src.write_text("a\n\n")
    with pytest.raises(CorpusError, match="somebody changes the files"):
        write_store(tmp_path / "encoded", text, TOKENIZERS, "print", quiet)
    assert {path.name for path in tmp_path.iterdir()} == {"src", "tgt"}


@pytest.mark.parametrize("name", ["src.ids", "tgt.offsets"])
def test_a_store_that_goes_while_it_is_used_is_one_line(tmp_path: Path, name: str) -> None:
    store = stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / name
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(RunError, match=f"^{path}: cut off [^\n]+$"):
        store.read([range(len(store))])
    path.unlink()
    with pytest.raises(RunError, match=f"^{path}: cannot be read [^\n]+$"):
        store.read([range(len(store))])


def test_reading_nothing_gives_nothing(tmp_path: Path) -> None:
    store = stored(tmp_path / "encoded")
    assert contents(store.read([]).src) == contents(TokenStore.of([]))
    assert len(store.read([range(3, 3)])) == 0

"""Encoded text on disk is what was encoded, or it is not used."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from letters import LettersFrom

from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.data.corpus import ParallelFiles, ParallelText, StreamedText
from transformer_cli.data.store import (
    EncodedStore,
    EncodedText,
    TokenArray,
    encode_pairs,
    open_store,
    read_stats,
    store_artifact,
    write_store,
)
from transformer_cli.text.protocol import Tokenizers

TOKENIZERS = Tokenizers(src=LettersFrom("a"), tgt=LettersFrom("A"))
TEXT = ParallelText([*"abcdefg", "ab" * 9], ["AAA", "B", "CB", "D", "E" * 30, "F", "GG", "H"])
TEXT_SUM = StreamedText.of(TEXT).stats.text_sha256
NAMES = {"ids", "pages", "store.json"}


def contents(pages: Iterable[EncodedText]) -> list[tuple[list[int], list[int]]]:
    return [
        (page.src[index].tolist(), page.tgt[index].tolist())
        for page in pages
        for index in range(len(page))
    ]


def encode(directory: Path, text: StreamedText, page_pairs: int = 3) -> EncodedStore:
    return write_store(directory, text, lambda: TOKENIZERS, "print", page_pairs=page_pairs)


def stored(directory: Path, text: ParallelText = TEXT, page_pairs: int = 3) -> EncodedStore:
    encode(directory, StreamedText.of(text), page_pairs)
    store = open_store(directory, StreamedText.of(text).stats.text_sha256, "print")
    assert store is not None
    return store


def opened(directory: Path) -> EncodedStore | None:
    return open_store(directory, TEXT_SUM, "print")


def all_of(store: EncodedStore) -> Iterator[EncodedText]:
    return store.read_pages(range(store.num_pages))


# --- stores ---------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1), st.text("XYZ", min_size=1)), min_size=1, max_size=9
    ),
    st.integers(1, 4),
    st.data(),
)
def test_what_is_read_is_what_was_encoded(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[str, str]],
    page_pairs: int,
    data: st.DataObject,
) -> None:
    text = ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])
    store = stored(tmp_path_factory.mktemp("store") / "encoded", text, page_pairs)
    numbers = data.draw(st.lists(st.integers(0, store.num_pages - 1), max_size=5))
    indices = [
        index
        for number in numbers
        for index in range(number * page_pairs, min(len(pairs), (number + 1) * page_pairs))
    ]
    expected = encode_pairs(text.pairs(), TOKENIZERS)
    found = list(store.read_pages(numbers))
    assert contents(found) == contents([expected.take(np.array(indices, int))])
    for lengths, page in zip(store.read_lengths(numbers), found, strict=True):
        assert [side.tolist() for side in lengths] == [
            page.src.lengths.tolist(),
            page.tgt.lengths.tolist(),
        ]
    tokens = (len(expected.src.ids), len(expected.tgt.ids))
    record = store.record
    assert (len(store), record.src_tokens, record.tgt_tokens) == (len(pairs), *tokens)


def test_the_files_are_these_and_no_more(tmp_path: Path) -> None:
    stored(tmp_path / "encoded", ParallelText(["ab", "c"], ["B", "ZA"]), page_pairs=1)
    files = {path.name: path.read_bytes() for path in (tmp_path / "encoded").iterdir()}
    assert set(files) == NAMES
    ids, lengths = [0, 1, 1, 2, 25, 0], [2, 1, 1, 2]
    assert np.frombuffer(files["ids"], "<i4").tolist() == ids
    # Two sums, where the page's ids start, and its lengths.
    entries = np.frombuffer(files["pages"], "<i8").reshape(2, -1)
    assert entries[:, 1].tolist() == [0, 3]
    assert entries[:, 2:].copy().view("<i4").ravel().tolist() == lengths
    assert [path.name for path in tmp_path.iterdir()] == ["encoded"]


def test_blank_pairs_are_not_stored_but_known(tmp_path: Path) -> None:
    text = ParallelText(["a", " ", "c"], ["X", "Y", ""])
    assert len(stored(tmp_path / "encoded", text)) == 1
    assert read_stats(tmp_path / "encoded") == StreamedText.of(text).stats


def test_another_text_or_tokenizer_does_not_fit(tmp_path: Path) -> None:
    stored(tmp_path / "encoded")
    assert open_store(tmp_path / "encoded", "another", "print") is None
    assert open_store(tmp_path / "encoded", TEXT_SUM, "another") is None


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-2],
        lambda data: data + b"\1",
        lambda data: b"",
    ],
    ids=["cut off", "too long", "empty"],
)
def test_a_damaged_store_is_none(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / name
    path.write_bytes(damage(path.read_bytes()))
    assert opened(tmp_path / "encoded") is None
    path.unlink()
    assert opened(tmp_path / "encoded") is None


@pytest.mark.long
def test_damage_that_no_size_tells_of_is_found_where_it_would_be_used(tmp_path: Path) -> None:
    directory = tmp_path / "encoded"
    whole = contents(all_of(stored(directory)))
    for name in ("ids", "pages"):
        path = directory / name
        data = path.read_bytes()
        for bit in range(0, 8 * len(data), 3):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            store = opened(directory)
            assert store is not None
            damaged = []
            for number in range(store.num_pages):
                try:
                    page = contents(store.read_pages([number]))
                    assert page == whole[3 * number : 3 * number + 3]
                except RunError as error:
                    damaged.append((number, str(error)))
            ((number, message),) = damaged
            assert message.startswith(f"{directory}/")
            assert f": page {number} is damaged" in message
            assert f"delete {directory}" in message
        path.write_bytes(data)


@pytest.mark.parametrize(("key", "value"), [("page_pairs", "8"), ("surprise", 1), ("files", {})])
def test_a_description_is_read_strictly(tmp_path: Path, key: str, value: object) -> None:
    stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / "store.json"
    sealed = json.loads(path.read_text())
    sealed["content"][key] = value
    path.write_text(json.dumps(sealed))
    assert opened(tmp_path / "encoded") is None  # its sum is not that any more
    sealed["sha256"] = sealed_sum(sealed["content"])
    path.write_text(json.dumps(sealed))
    assert opened(tmp_path / "encoded") is None


def sealed_sum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def test_no_store_is_none(tmp_path: Path) -> None:
    assert opened(tmp_path / "encoded") is None
    assert open_store(tmp_path / "encoded", TEXT_SUM, "print") is None
    assert read_stats(tmp_path / "encoded") is None


# --- trouble --------------------------------------------------------------------------------------


def test_a_text_that_changes_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    files = ParallelFiles(tmp_path / "src", tmp_path / "tgt")
    for path in (files.src, files.tgt):
        path.write_text("a\nb\n")
    text = StreamedText.of(files)
    files.src.write_text("a\n\n")
    with pytest.raises(CorpusError, match="files changed during reading"):
        encode(tmp_path / "encoded", text)
    assert {path.name for path in tmp_path.iterdir()} == {"src", "tgt"}


@pytest.mark.parametrize("name", ["ids", "pages"])
def test_a_store_that_goes_while_it_is_used_is_one_line(tmp_path: Path, name: str) -> None:
    store = stored(tmp_path / "encoded")
    path = tmp_path / "encoded" / name
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(RunError, match=f"^{store.directory}/[a-z]+: page 2 is damaged[^\n]+$"):
        contents(all_of(store))
    path.unlink()
    with pytest.raises(RunError, match=f"^{path}: cannot be read [^\n]+$"):
        contents(all_of(store))


def test_reading_nothing_gives_nothing(tmp_path: Path) -> None:
    store = stored(tmp_path / "encoded")
    assert contents(store.read_pages([])) == []
    assert len(TokenArray.concatenate([])) == 0


def test_runs_may_share_its_files(tmp_path: Path) -> None:
    store = stored(tmp_path / "encoded")
    (tmp_path / "copy").mkdir()
    for name in NAMES:
        os.link(store.directory / name, tmp_path / "copy" / name)
    store_artifact(tmp_path / "copy").update(store.record, tgt_tokens=0)
    changed = store.record.model_copy(update={"tgt_tokens": 0})
    assert store_artifact(tmp_path / "copy").read() == changed
    assert store_artifact(tmp_path / "encoded").read() == store.record

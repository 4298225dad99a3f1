"""Text that is added to the training text of another kind of data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from cli.process import assert_refused, run

from transformer_cli.config.data_schema import (
    DataSection,
    FilePair,
    FilesData,
    ToyData,
)
from transformer_cli.data import kinds
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.kinds import (
    load_split,
    open_kind,
    open_training_text,
)
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.stores import multi30k
from transformer_cli.extensions.stores.settings import Multi30kData

AnyData = TypeVar("AnyData", bound=DataSection)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pair(name: str, src: str, tgt: str) -> FilePair:
    files = FilePair(src=Path(f"{name}.src"), tgt=Path(f"{name}.tgt"))
    files.src.write_text(src, encoding="utf-8")
    files.tgt.write_text(tgt, encoding="utf-8")
    return files


def files_data() -> FilesData:
    train, val = pair("a", "un\n\n", "um\n\n"), pair("b", "deux\n", "dois\n")
    return FilesData(kind="files", src_lang="fr", tgt_lang="pt-BR", train=train, val=val)


def added_pair(name: str, src: str, tgt: str) -> SourceConfig:
    files = pair(name, src, tgt)
    return SourceConfig(src=files.src, tgt=files.tgt)


def with_more(data: AnyData, added: Sequence[SourceConfig]) -> AnyData:
    given = {key: getattr(data, key) for key in data.model_fields_set}
    return type(data).model_validate({**given, "more": list(added)})


def test_added_pairs_follow_the_training_text_and_are_no_part_of_its_split() -> None:
    added = [added_pair("e", "cinq\n\n", "cinco\n\n"), added_pair("f", "six\n", "seis\n")]
    data = with_more(files_data(), added)
    assert list(open_training_text(data).pairs()) == [
        *(("un", "um"), ("", "")),
        *(("cinq", "cinco"), ("", "")),
        ("six", "seis"),
    ]
    for split in open_kind(data).split_names():
        assert load_split(data, split) == load_split(files_data(), split)


def test_the_sum_is_another_one_whenever_any_pair_is() -> None:
    own = files_data()

    def sum_of(*added: SourceConfig) -> str:
        return open_training_text(with_more(own, added)).source_sha256()

    one, other = added_pair("e", "cinq\n", "cinco\n"), added_pair("f", "six\n", "seis\n")
    sums = [sum_of(), sum_of(one), sum_of(other), sum_of(one, other), sum_of(other, one)]
    pair("f", "sept\n", "seis\n")
    sums.append(sum_of(one, other))
    pair("a", "un\n\n", "dois\n\n")
    sums.append(sum_of(one, other))
    assert len(set(sums)) == len(sums)
    assert sum_of(one, other) == sums[-1]


@pytest.mark.parametrize("data", [ToyData(kind="toy"), Multi30kData(kind="multi30k")])
def test_corpora_of_captions_take_added_pairs_too(
    here: Path, data: ToyData | Multi30kData, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, added = pair("train", "eins\n", "one\n"), added_pair("e", "zwei\n", "two\n")
    monkeypatch.setattr(multi30k, "fetch", lambda *_: (own.src, own.tgt))
    files = ParallelFiles(own.src, own.tgt)
    monkeypatch.setattr(kinds.ToyKind, "open_split", lambda *_: files)
    more = with_more(data, [added])
    assert list(open_training_text(more).pairs()) == [("eins", "one"), ("zwei", "two")]


def test_misaligned_added_pairs_are_refused_before_a_run_is_made(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text("data: {kind: toy}\ntokenizer: {kind: words}\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    (tmp_path / "a.en").write_text("one\n")
    more = ("--set", "data.more=[{src: a.de, tgt: a.en}]")
    refused = run("train", "toy.yaml", *more, cwd=tmp_path)
    assert_refused(refused, 1, f"{tmp_path / 'a.de'} has 2 lines but {tmp_path / 'a.en'} has 1")
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_text_fails_while_it_is_read_can_begin_again(config: Path) -> None:
    (config.parent / "a.en").write_text("one\ntwo\n")
    (config.parent / "a.de").write_text("eins\n")
    config.write_text(
        "data: {kind: corpus, src_lang: en, tgt_lang: de, sources: [{src: a.en, tgt: a.de}], "
        "split: {val: 1}}\n"
        "tokenizer: {kind: words}\n"
    )
    failed = run("train", config, "--run-dir", "run", cwd=config.parent)
    assert failed.code == 1
    (config.parent / "a.de").write_text("eins\nzwei\n")
    steps = ("--set", "training.max_steps=1", "--set", "tokenizer.min_freq=1")
    assert run("train", config, "--run-dir", "run", *steps, cwd=config.parent).code == 0

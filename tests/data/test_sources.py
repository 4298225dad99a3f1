from pathlib import Path

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError
from transformer_cli.base.packages import shipped_directory
from transformer_cli.config.data_schema import (
    DataSection,
    FilePair,
    FilesData,
    ToyData,
)
from transformer_cli.data import kinds
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import (
    CorpusKind,
    default_split,
    load_split,
    open_kind,
    open_training_text,
)


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
    return FilesData(
        kind="files",
        src_lang="fr",
        tgt_lang="pt-BR",
        train=pair("a", "un\n\n", "um\n\n"),
        val=pair("b", "deux\n", "dois\n"),
        test={"news": pair("c", "trois\n", "três\n"), "web": pair("d", "quatre\n", "quatro\n")},
    )


# --- names ----------------------------------------------------------------------------------------


def test_split_names() -> None:
    assert open_kind(ToyData(kind="toy")).split_names() == ["train", "val", "test"]
    assert open_kind(files_data()).split_names() == ["train", "val", "news", "web"]


def test_the_first_test_split_is_what_to_evaluate_on() -> None:
    assert default_split(ToyData(kind="toy")) == "test"
    assert default_split(files_data()) == "news"
    assert default_split(files_data().model_copy(update={"test": {}})) == "val"


def test_an_unknown_split_lists_those_there_are() -> None:
    data = ToyData(kind="toy")
    with pytest.raises(CorpusError) as error:
        load_split(data, "dev")
    names = ", ".join(open_kind(data).split_names())
    assert str(error.value) == f"data.kind {data.kind} has no split 'dev'; choose from {names}"


def test_a_misspelt_split_is_guessed() -> None:
    with pytest.raises(CorpusError, match="has no split 'newz'; did you mean 'news'"):
        load_split(files_data(), "newz")


# --- files ----------------------------------------------------------------------------------------


def test_each_split_has_its_own_files() -> None:
    data = files_data()
    assert load_split(data, "train") == ParallelText(["un", ""], ["um", ""])
    assert load_split(data, "val") == ParallelText(["deux"], ["dois"])
    assert load_split(data, "web") == ParallelText(["quatre"], ["quatro"])


# --- toy ------------------------------------------------------------------------------------------


def toy_files(directory: Path, mark: str) -> Path:
    directory.mkdir(parents=True)
    for lang in ("de", "en"):
        (directory / f"val.{lang}").write_text(f"{mark} {lang}\n", encoding="utf-8")
    return directory


def test_toy_files_here_come_before_those_of_the_program(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_files(here / "program" / "data" / "toy", "program")
    monkeypatch.setattr(kinds, "shipped_directory", lambda: here / "program")
    back = ToyData(kind="toy", src_lang="en", tgt_lang="de")
    assert load_split(ToyData(kind="toy"), "val") == ParallelText(["program de"], ["program en"])
    assert load_split(back, "val") == ParallelText(["program en"], ["program de"])
    toy_files(here / "data" / "toy", "here")
    assert load_split(ToyData(kind="toy"), "val") == ParallelText(["here de"], ["here en"])


def test_a_checkout_has_the_toy_files() -> None:
    assert shipped_directory() == Path(__file__).parents[2]


def test_where_there_are_no_toy_files_the_error_says_who_writes_them(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "shipped_directory", lambda: here / "program")
    with pytest.raises(CorpusError) as error:
        load_split(ToyData(kind="toy"), "val")
    assert str(error.value) == (
        "data/toy: val.de and val.en are missing; transformer-cli init --from toy writes them"
    )


# --- kinds of extensions --------------------------------------------------------------------------


class FakeKind(CorpusKind[DataSection]):
    def split_names(self) -> list[str]:
        return ["train", "val"]

    def open_split(self, split: str, place: Path | None) -> ParallelText:
        return ParallelText([f"{split} src"], [f"{split} tgt"])


def test_an_extension_can_add_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.Entry("fake", "test", {"load": f"{__name__}:FakeKind"}, "")
    monkeypatch.setattr(registry.Entry, "load", lambda _: FakeKind)
    monkeypatch.setattr(
        registry, "find", lambda what, name: {("corpus", "fake"): entry}[what, name]
    )
    data = DataSection(kind="fake", src_lang="de", tgt_lang="en")
    assert default_split(data) == "val"
    assert list(open_training_text(data).pairs()) == [("train src", "train tgt")]


def test_a_kind_that_is_not_installed_is_named() -> None:
    data = DataSection(kind="nowhere", src_lang="de", tgt_lang="en")
    with pytest.raises(ConfigError, match=r"^nowhere: no such data\.kind is installed; installed"):
        open_kind(data).split_names()


@pytest.mark.parametrize(("key", "added"), [("symbols", [("more", "mehr")]), ("missing", [])])
def test_an_extension_can_add_text_to_train(
    key: str, added: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = registry.Entry("fake", "test", {"keys": (key,)}, "")
    text = ParallelText(["more"], ["mehr"])
    monkeypatch.setattr(
        registry.Entry,
        "load",
        lambda *_: (
            lambda _, train: ParallelText(
                *map(list, zip(*train.pairs(), *text.pairs(), strict=True))
            )
        ),
    )
    monkeypatch.setattr(
        registry, "entries", lambda what: {"fake": entry} if what == "mixing" else {}
    )
    data = files_data().model_copy(update={"symbols": 3})
    assert list(open_training_text(data).pairs())[2:] == added

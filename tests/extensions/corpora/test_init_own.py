"""``init --from own``: a configuration for a user's text."""

import gzip
import os
from pathlib import Path

import pytest
from cli.process import assert_refused, run
from cli.test_init_command import TOY, tree

from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.corpora.prepared import split_path
from transformer_cli.extensions.corpora.preparing import prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData

OWN = ("--from", "own", "--src", "a.de", "--tgt", "a.en")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with 500 pairs of a user's."""
    for side in ("de", "en"):
        lines = (TOY / f"train.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"a.{side}").write_text("".join(lines[:500]), encoding="utf-8")
    return tmp_path


def pairs(directory: Path, split: str) -> list[tuple[str, ...]]:
    sides = (directory / f"{split}.{side}" for side in ("de", "en"))
    return list(
        zip(*(side.read_text(encoding="utf-8").splitlines() for side in sides), strict=True)
    )


def test_the_printed_commands_train_on_own_text(here: Path) -> None:
    for side in ("de", "en"):
        with (here / f"a.{side}").open("a", encoding="utf-8") as file:
            lines = (f"Zeile {number}, in beiden Dateien gleich\n" for number in range(30))
            file.writelines(lines)  # a warning of `check`
    finished = run("init", *OWN, cwd=here)
    assert finished.code == 0, finished.err
    assert finished.out.splitlines() == ["configs/own_de_en.yaml", "configs/schema.json"]
    commands = finished.err.removeprefix("next: ").rstrip("\n").split(" && ")
    for command in commands:
        short = ("--set", "training.max_steps=1")
        done = run(*command.split()[1:], *short, cwd=here)
        assert done.code == 0, done.err
        assert ("warning: " in done.out) == ("check" in command)
    splits = {
        split: list(split_path(here / "runs" / "own_de_en" / "corpus", split).pairs())
        for split in ("train", "val", "test")
    }
    assert [len(splits["val"]), len(splits["test"])] == [26, 26]
    held_out = [*splits["val"], *splits["test"]]
    assert set(held_out) <= set(pairs(here, "a"))
    for number in (0, 1):
        trained = {pair[number] for pair in splits["train"]}
        assert trained.isdisjoint(pair[number] for pair in held_out)


def test_no_side_of_what_is_held_out_is_trained_on(tmp_path: Path) -> None:
    for side, different in (("de", 60), ("en", 40)):
        (tmp_path / f"a.{side}").write_text(
            "".join(f"{side} {n % different}\n" for n in range(200))
        )
    assert run("init", *OWN, cwd=tmp_path).code == 0
    data = load_config(tmp_path / "configs" / "own_de_en.yaml").data
    assert isinstance(data, CorpusData)
    source = data.sources[0].model_copy(update={"src": tmp_path / "a.de", "tgt": tmp_path / "a.en"})
    corpus = tmp_path / "corpus"
    prepare_corpus(data.model_copy(update={"sources": [source]}), corpus)
    train, val, test = (
        [set(side) for side in zip(*split_path(corpus, split).pairs(), strict=True)]
        for split in ("train", "val", "test")
    )
    assert len(val[0]) == len(test[0]) == 10
    for number in (0, 1):
        assert train[number].isdisjoint(val[number] | test[number])


def test_files_with_both_sides_need_no_conversion(here: Path) -> None:
    (here / "a.tsv").write_text("".join(f"links {n}\trechts {n}\n" for n in range(40)))
    units = "".join(
        f'<tu><tuv xml:lang="de-AT"><seg>a {n}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>b {n}</seg></tuv></tu>'
        for n in range(60)
    )
    (here / "b.tmx").write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    both = ("--from", "own", "--bitext", "a.tsv", "--bitext", "b.tmx")
    finished = run("init", *both, "--src-lang", "de", "--tgt-lang", "en", cwd=here)
    assert finished.code == 0, finished.err
    text = (here / "configs" / "own_de_en.yaml").read_text()
    assert "de to en: 100 pairs." in text
    assert '- {tsv: "a.tsv", src_column: 1, tgt_column: 2}\n    - {tmx: "b.tmx"}\n' in text
    data = load_config(here / "configs" / "own_de_en.yaml").data
    assert isinstance(data, CorpusData)
    assert data.split is not None
    assert data.split.val == 5


def test_named_splits_stay_where_they_are(here: Path) -> None:
    odd = "it's a {, }: #.txt"
    (here / "a.en").rename(here / odd)
    named = ("--from", "own", "--src", here / "a.de", "--tgt", odd)
    languages = ("--src-lang", "de", "--tgt-lang", "pt-BR")
    val = ("--val-src", "a.de", "--val-tgt", odd)
    finished = run("init", "below", *named, *languages, *val, cwd=here)
    assert finished.code == 0, finished.err
    assert set(tree(here / "below")) == {"configs/own_de_pt-BR.yaml", "configs/schema.json"}
    text = (here / "below" / "configs" / "own_de_pt-BR.yaml").read_text(encoding="utf-8")
    assert "  # test:\n" in text
    shown = run("config", "show", "configs/own_de_pt-BR.yaml", cwd=here / "below")
    assert shown.code == 0, shown.err
    assert f'"../{odd}"' in text
    for side in (here / "a.de", here / odd):  # a filter leaves the repetition out
        side.write_text(side.read_text() + side.read_text().splitlines(keepends=True)[0])
    checked = run("check", "configs/own_de_pt-BR.yaml", cwd=here / "below")
    assert checked.code == 1
    assert "\nmistake: val: " in checked.out
    assert "a.de is also training text, as part of data.sources[0]\n" in checked.out
    trained = run("train", "configs/own_de_pt-BR.yaml", cwd=here / "below")
    assert trained.code == 2
    assert "a.de is also training text, as part of data.sources[0]; this can only be" in trained.err


@pytest.mark.parametrize(
    ("src", "tgt", "languages"),
    [
        ("zh.en", "zh.zh_TW", ("en", "zh-TW")),
        ("a.sr@latin", "a.sr@cyrillic", ("sr-Latn", "sr-Cyrl")),
        ("a.zh-Hant-TW.gz", "a.pt_BR", ("zh-Hant-TW", "pt-BR")),
    ],
)
def test_languages_are_read_from_endings_in_any_form(
    src: str, tgt: str, languages: tuple[str, str], here: Path
) -> None:
    text = (here / "a.de").read_bytes()
    (here / src).write_bytes(gzip.compress(text) if src.endswith(".gz") else text)
    (here / tgt).write_bytes(text)
    files = ("--from", "own", "--src", src, "--tgt", tgt)
    finished = run("init", *files, cwd=here)
    assert finished.code == 0, finished.err
    path = f"configs/own_{'_'.join(languages)}.yaml"
    assert finished.out.splitlines()[0] == path
    data = load_config(here / path).data
    assert (data.src_lang, data.tgt_lang) == languages
    named = run("init", *files, "--name", "mine", cwd=here)
    assert named.out.splitlines() == ["configs/mine.yaml"]


def test_test_text_alone_leaves_validation_to_be_held_out(here: Path) -> None:
    finished = run("init", *OWN, "--test-src", "a.de", "--test-tgt", "a.en", cwd=here)
    assert finished.code == 0, finished.err
    text = (here / "configs" / "own_de_en.yaml").read_text()
    assert "split: {val: 25, test: 0}" in text
    assert 'test: {src: "a.de", tgt: "a.en"}' in text


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        (("--from", "own"), 2, ("--src: is missing", "both sides")),
        ((*OWN[:4],), 2, ("--tgt: is missing", "or a file that has both, e.g. --bitext a.tmx")),
        ((*OWN, "--bitext", "a.tsv"), 2, ("--bitext: has both sides; leave out --src and --tgt",)),
        (("--from", "own", "--bitext", "a.tmx"), 2, ("--src-lang: is missing",)),
        (("--from", "toy", "--bitext", "a.tmx"), 2, ("--bitext: works with --from own only",)),
        ((*OWN, "--val-src", "a.de"), 2, ("--val-tgt: is missing", "validation text")),
        ((*OWN[:2], "--src", "a.de", "--tgt", "b.en"), 2, ("b.en: there is no such file",)),
        ((*OWN[:2], "--src", "a.de", "--tgt", "short.en"), 1, ("500 lines but short.en has 3",)),
        ((*OWN[:2], "--src", "short.en", "--tgt", "short.de"), 1, ("3 pairs, too few",)),
        ((*OWN[:2], "--src", "a.de", "--tgt", "b.de"), 2, ("b.de: there is no such file",)),
        ((*OWN[:2], "--src", "a.de", "--tgt", "a.de"), 1, ("a.de: is given for both sides",)),
        ((*OWN[:2], "--src", "short.1", "--tgt", "short.2"), 2, ("--src-lang: is missing",)),
        ((*OWN, "--src-lang", "en", "--tgt-lang", "de"), 2, ("--src ends in .de", "swap")),
        ((*OWN, "--src-lang", "german"), 2, ("--src-lang german: not a language code",)),
        ((*OWN, "--src-lang", "en"), 2, ("--tgt-lang en: is the same as --src-lang",)),
        ((*OWN, "--src-lang", "d", "--tgt-lang", "e"), 2, ("--src-lang d: not a language code",)),
        ((*OWN, "--name", "a/b"), 2, ("--name a/b: is a path; give only a name",)),
        (("--from", "toy", "--name", "mine"), 2, ("--name: works with --from own and opus only",)),
        ((*OWN[:2], "--src", "a.de", "--tgt", "short.1"), 2, ("--tgt-lang: is missing",)),
        (("--from", "toy", "--src", "a.de"), 2, ("--src: works with --from own only",)),
        (("--tgt-lang", "de"), 2, ("--tgt-lang: works with --from own and opus only",)),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(
    arguments: tuple[str, ...], code: int, fragments: tuple[str, ...], here: Path
) -> None:
    for side in ("de", "en", "1", "2"):
        (here / f"short.{side}").write_text("1\n2\n3\n")
    before = tree(here)
    assert_refused(run("init", *arguments, cwd=here), code, *fragments)
    assert tree(here) == before


def test_text_in_another_encoding_is_refused(here: Path) -> None:
    for path in here.glob("a.*"):
        text = path.read_text(encoding="utf-8").replace("e", "é")
        path.write_text(text, encoding="cp1252", errors="ignore")
    assert_refused(run("init", *OWN, cwd=here), 1, "not UTF-8", "iconv -f NAME -t UTF-8")


def test_a_second_text_of_the_same_languages_gets_a_name_of_its_own(here: Path) -> None:
    assert run("init", *OWN, cwd=here).code == 0
    (here / "a.de").write_text((here / "a.de").read_text(encoding="utf-8") * 2, encoding="utf-8")
    (here / "a.en").write_text((here / "a.en").read_text(encoding="utf-8") * 2, encoding="utf-8")
    assert_refused(run("init", *OWN, cwd=here), 2, "own_de_en.yaml: already exists", "--name")
    finished = run("init", *OWN, "--name", "x8.yaml", cwd=here)
    assert (finished.code, finished.out) == (0, "configs/x8.yaml\n")


@pytest.mark.posix
def test_relative_paths_hold_where_the_directory_is_a_link(here: Path) -> None:
    (here / "far" / "away").mkdir(parents=True)
    (here / "link").symlink_to(here / "far" / "away")
    src = ("--src", "a.de", "--tgt", "a.en", "--val-src", "a.de", "--val-tgt", "a.en")
    assert run("init", "link", "--from", "own", *src, cwd=here).code == 0
    written = (here / "far" / "away" / "configs" / "own_de_en.yaml").read_text(encoding="utf-8")
    assert written.count("../../a.de") == written.count("a.de") > 0


@pytest.mark.posix
def test_a_pipe_is_refused_before_it_is_read(here: Path) -> None:
    os.mkfifo(here / "pipe.de")
    refused = run("init", "--from", "own", "--src", "pipe.de", "--tgt", "a.en", cwd=here)
    assert_refused(refused, 1, "pipe.de: not a file")
    assert sorted(each.name for each in here.iterdir()) == ["a.de", "a.en", "pipe.de"]


def test_equal_pairs_cannot_be_held_out(here: Path) -> None:
    for side in ("de", "en"):
        (here / f"a.{side}").write_text("Hallo\n" * 30, encoding="utf-8")
    assert run("init", *OWN, cwd=here).code == 0
    checked = run("check", "configs/own_de_en.yaml", cwd=here)
    assert_refused(checked, 2, "data.split: asks for 1 pairs for val and 1 for test, but of the 1")

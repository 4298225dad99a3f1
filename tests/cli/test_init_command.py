"""``init`` writes configs that work from an empty directory."""

from pathlib import Path

import pytest

from cli.process import assert_refused, run
from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.cli.init import NewConfig, _add, find_configs
from transformer_cli.config.yaml import list_base_files, load_config

ROOT = Path(__file__).parents[2]
TOY = ROOT / "data" / "toy"


def tree(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


# --- shipped configurations -----------------------------------------------------------------------


def test_without_a_name_or_a_terminal_it_lists_them_and_says_how_to_choose(tmp_path: Path) -> None:
    finished = run("init", cwd=tmp_path)
    assert finished.code == 0
    names = find_configs()
    # They continue from runs that `make best` makes.
    listed = [name for name in names if not name.endswith("_best")]
    assert [line.split()[0] for line in finished.out.splitlines()] == [
        *listed,
        *registry.entries("init"),
    ]
    assert max(map(len, finished.out.splitlines())) <= 110
    assert finished.err == "choose one with transformer-cli init --from NAME\n"
    assert tree(tmp_path) == {}


def test_what_it_writes_is_what_is_shipped_and_loads(tmp_path: Path) -> None:
    check_written("toy", tmp_path)


def check_written(name: str, tmp_path: Path) -> None:
    """Check that ``init`` writes the shipped files, and that the config loads."""
    finished = run("init", "new/place", "--from", name, cwd=tmp_path)
    assert finished.code == 0, finished.err
    written = tree(tmp_path)
    assert finished.out.splitlines() == sorted(written)
    shipped = {f"new/place/configs/{path}": each for path, each in tree(ROOT / "configs").items()}
    shipped |= {f"new/place/data/toy/{path}": each for path, each in tree(TOY).items()}
    assert written.items() <= shipped.items()
    config = tmp_path / "new" / "place" / "configs" / f"{name}.yaml"
    assert load_config(config) == load_config(ROOT / "configs" / f"{name}.yaml")
    for file in list_base_files(config):
        assert file.read_bytes().startswith(b"# yaml-language-server: $schema=schema.json\n")
    assert config.with_name("schema.json").is_file()
    assert f"cd new/place && transformer-cli train configs/{name}.yaml" in finished.err


def test_toy_comes_with_its_text(tmp_path: Path) -> None:
    assert run("init", "--from", "toy", cwd=tmp_path).code == 0
    texts = {name for name in tree(tmp_path) if name.startswith("data/")}
    assert texts == {
        f"data/toy/{each}.{side}" for each in ("train", "val", "test") for side in ("de", "en")
    }


def test_equal_files_are_left_and_a_different_one_is_refused(tmp_path: Path) -> None:
    assert run("init", "--from", "toy", cwd=tmp_path).code == 0
    before = tree(tmp_path)
    again = run("init", "--from", "toy", cwd=tmp_path)
    assert (again.code, again.out) == (0, "")
    assert tree(tmp_path) == before
    (tmp_path / "data" / "toy" / "val.de").write_text("mine\n")
    (tmp_path / "configs" / "toy.yaml").unlink()
    before = tree(tmp_path)
    place = str(Path("data/toy/val.de"))
    assert_refused(run("init", "--from", "toy", cwd=tmp_path), 2, f"{place}: already exists")
    assert tree(tmp_path) == before


def test_a_wrong_name_leads_to_the_right_one(tmp_path: Path) -> None:
    assert_refused(run("init", "--from", "tooy", cwd=tmp_path), 2, "did you mean 'toy'?")
    assert_refused(run("init", "--from", "!", cwd=tmp_path), 2, "choose from ", "toy")


def test_a_file_where_a_directory_has_to_be_is_refused_before_all_else(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    refused = run("init", "--from", "toy", cwd=tmp_path)
    assert_refused(refused, 2, "data: not a directory; move it away")
    assert tree(tmp_path) == {"data": b"mine"}


# --- own text -------------------------------------------------------------------------------------


# --- how files are added --------------------------------------------------------------------------


@pytest.mark.posix
def test_a_link_that_points_nowhere_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"a: already exists"):
        _add(tmp_path, NewConfig(Path("a"), "1"))
    assert (tmp_path / "a").is_symlink()
    assert not (tmp_path / "nowhere").exists()


def test_files_are_added_over_none_and_all_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {Path("below", "b"): b"2", Path("below", "c"): b"3"}
    config = NewConfig(Path("below", "a"), "1", others=others)
    below = tmp_path / "below"
    below.mkdir()
    (below / "b").write_text("2")
    (below / "c").write_text("mine")
    with pytest.raises(UsageError, match=r"c: already exists with other content"):
        _add(tmp_path, config)
    assert not (below / "a").exists()
    (below / "c").unlink()
    _add(tmp_path, config)
    added = [below / "a", below / "c", tmp_path / "configs" / "schema.json"]
    assert capsys.readouterr().out.splitlines() == list(map(str, added))
    assert [(below / name).read_text() for name in "abc"] == ["1", "2", "3"]

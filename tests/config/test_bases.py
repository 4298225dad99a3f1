"""Configs that build on others: what they keep and replace, and the places of mistakes."""

from pathlib import Path

import pytest

from transformer_cli.base.errors import ConfigError
from transformer_cli.config import yaml
from transformer_cli.config.schema import Config, NoamSchedule
from transformer_cli.config.yaml import load_config

BASE = """\
data: {kind: toy}
tokenizer: {kind: sentencepiece, vocab_size: 50}
training:
  epochs: 10
  betas: [0.9, 0.99]
  schedule:
    kind: noam
    factor: 3
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def over_base(directory: Path, text: str) -> Path:
    write(directory / "base.yaml", BASE)
    return write(directory / "over.yaml", f"base: base.yaml\n{text}")


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config(path, overrides)
    return str(refused.value)


def same_as(path: Path, text: str) -> bool:
    return load_config(path) == load_config(write(path.parent / "whole.yaml", text))


# --- merging --------------------------------------------------------------------------------------


def test_a_file_with_nothing_but_a_base_is_its_base(tmp_path: Path) -> None:
    assert same_as(over_base(tmp_path, ""), BASE)


def test_sections_are_merged_key_by_key(tmp_path: Path) -> None:
    over = over_base(
        tmp_path, "training: {epochs: 3, schedule: {warmup: 7}, keep_last: 4}\nseed: 5\n"
    )
    expected = BASE.replace("epochs: 10", "epochs: 3\n  keep_last: 4") + "    warmup: 7\nseed: 5\n"
    assert same_as(over, expected)


def test_a_section_of_another_kind_replaces_the_bases(tmp_path: Path) -> None:
    over = over_base(tmp_path, "training: {schedule: {kind: linear, peak: 1, warmup: 5}}\n")
    expected = BASE.replace("noam\n    factor: 3", "linear\n    peak: 1\n    warmup: 5")
    assert same_as(over, expected)
    over = over_base(tmp_path, "tokenizer: {kind: words}\n")
    assert same_as(over, BASE.replace("{kind: sentencepiece, vocab_size: 50}", "{kind: words}"))


def test_a_section_of_the_same_kind_keeps_the_bases_keys(tmp_path: Path) -> None:
    over = over_base(tmp_path, "training: {schedule: {kind: noam, warmup: 7}}\n")
    assert same_as(over, BASE + "    warmup: 7\n")


def test_lists_and_nulls_replace(tmp_path: Path) -> None:
    over = over_base(tmp_path, "training: {betas: [0.1, 0.2], clip_norm: null}\n")
    expected = BASE.replace("betas: [0.9, 0.99]", "betas: [0.1, 0.2]\n  clip_norm: null")
    assert same_as(over, expected)


def test_overrides_come_last_and_merge_as_without_a_base(tmp_path: Path) -> None:
    over = over_base(tmp_path, "training: {epochs: 3}\n")
    config = load_config(over, ["training.epochs=4", "training.schedule={kind: noam}"])
    assert config.training.epochs == 4
    assert isinstance(config.training.schedule, NoamSchedule)
    assert config.training.schedule.factor == 2.0
    assert refusal(over, "training.schedule.kind=linear") == (
        f"{tmp_path}/base.yaml:8: training.schedule.factor: unknown key for kind 'linear'; "
        "the keys are kind, peak, warmup"
    )


# --- which file -----------------------------------------------------------------------------------


def test_paths_start_from_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "root.yaml", BASE)
    write(tmp_path / "deep" / "middle.yaml", "base: ../root.yaml\nseed: 2\n")
    write(tmp_path / "top.yaml", "base: deep/middle.yaml\ntraining: {epochs: 3}\n")

    def assert_all_three(config: Config) -> None:
        assert (config.seed, config.training.epochs) == (2, 3)
        assert config.training.betas == (0.9, 0.99)

    assert_all_three(load_config(tmp_path / "top.yaml"))
    monkeypatch.chdir(tmp_path / "deep")
    assert_all_three(load_config(Path("../top.yaml")))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert_all_three(load_config(write(Path("home.yaml"), "base: ~/top.yaml\n")))
    absolute = write(Path("absolute.yaml"), f"base: {tmp_path}/top.yaml\n")
    assert_all_three(load_config(absolute))


@pytest.mark.posix
@pytest.mark.parametrize(
    "named", ["missing.yaml", ".", "/dev/null", "~nobody-of-this-name/x.yaml", "a" * 9999]
)
def test_a_base_that_is_no_file(tmp_path: Path, named: str) -> None:
    message = refusal(write(tmp_path / "over.yaml", f"seed: 1\nbase: {named}\n"))
    assert message.startswith(f"{tmp_path}/over.yaml:2: base: there is no file ")
    assert named[:20] in message
    assert message.endswith("; its path starts from the directory of over.yaml")
    assert len(message) < 1000


@pytest.mark.parametrize("value", ["3", "", "null", "''", "[a.yaml]", "{a: b}"])
def test_a_base_that_is_no_path(tmp_path: Path, value: str) -> None:
    message = refusal(write(tmp_path / "over.yaml", f"base: {value}\n"))
    assert message.startswith(f"{tmp_path}/over.yaml:1: base: expected the path of a YAML file, ")


def test_a_file_that_builds_on_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "# mine\nbase: ./a.yaml\n")
    assert refusal(path) == (
        f"{path}:2: base: {path} is this file, or builds on it; use another base, or none"
    )


@pytest.mark.posix
def test_files_that_build_on_each_other(tmp_path: Path) -> None:
    first = write(tmp_path / "a.yaml", "base: b.yaml\n")
    (tmp_path / "link.yaml").symlink_to("a.yaml")
    write(tmp_path / "b.yaml", "base: c.yaml\n")
    write(tmp_path / "c.yaml", "\nbase: link.yaml\n")
    assert refusal(first).startswith(f"{tmp_path}/c.yaml:2: base: {tmp_path}/link.yaml is this ")


def test_one_file_twice_is_no_cycle_by_another_way(tmp_path: Path) -> None:
    """A long chain is not a cycle either."""
    write(tmp_path / "0.yaml", BASE)
    for number in range(1, 60):
        write(tmp_path / f"{number}.yaml", f"base: {number - 1}.yaml\nseed: {number}\n")
    assert load_config(tmp_path / "59.yaml").seed == 59


def test_a_base_is_no_setting_and_cannot_be_set(tmp_path: Path) -> None:
    over = over_base(tmp_path, "model: {base: 3}\n")
    assert refusal(over).startswith(f"{over}:2: model.base: unknown key")
    message = refusal(over_base(tmp_path, ""), "base=other.yaml")
    assert message.startswith("--set base=other.yaml: base: only a config file can set it; ")


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 3\n", "base.yaml:4: training.epoch: unknown key; did you mean 'epochs'?"),
        ("training: {keep_last: 1}\n", "base.yaml:4: training.epoch: unknown key"),
        ("training: {epoch: 3}\n", "over.yaml:2: training.epoch: unknown key"),
        ("model:\n  d_mode: 3\n", "over.yaml:3: model.d_mode: unknown key"),
        ("model: {num_heads: 3}\n", "over.yaml:2: model.num_heads: 3 heads do not divide"),
    ],
)
def test_mistakes_are_said_of_the_file_they_are_in(tmp_path: Path, text: str, said: str) -> None:
    over = over_base(tmp_path, text)
    if "num_heads" not in text:
        write(tmp_path / "base.yaml", BASE.replace("epochs", "epoch"))
    assert refusal(over).startswith(f"{tmp_path}/{said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "base.yaml: the file is empty"),
        (b"- 1\n", "base.yaml: expected keys such as data and tokenizer, found a list of 1"),
        (b"data: [\n", "base.yaml:2: not YAML: "),
        (b"seed: 1\n# \xff\n", "base.yaml:2: the byte 0xff is not UTF-8"),
        (b"seed: 1\nseed: 1\n", "base.yaml:2: seed: written twice, first on line 1; keep one"),
    ],
)
def test_a_base_that_cannot_be_read(tmp_path: Path, content: bytes, said: str) -> None:
    over = over_base(tmp_path, "seed: 3\n")
    (tmp_path / "base.yaml").write_bytes(content)
    assert refusal(over).startswith(f"{tmp_path}/{said}")


def test_what_is_missing_is_said_of_the_file_that_was_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "base.yaml", "data: {kind: toy}\n")
    over = write(tmp_path / "over.yaml", "base: base.yaml\nseed: 3\n")
    assert refusal(over).startswith(f"{over}: tokenizer: missing; give it a kind: ")


def test_a_misplaced_key_of_a_base_is_told_whatever_is_over_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "data: {kind: toy}\ntokenizer: {kind: words}\nvocab_size: 100\n"
    )
    (tmp_path / "top.yaml").write_text("base: base.yaml\nmodel: {d_model: 64}\n")
    with pytest.raises(ConfigError, match="vocab_size: unknown key"):
        load_config(tmp_path / "top.yaml")


@pytest.mark.posix
def test_a_file_beside_one_behind_a_link_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    (tmp_path / "real" / "b.yaml").write_text("x: right\n")
    (tmp_path / "real" / "sub" / "a.yaml").write_text("file: ../b.yaml\n")
    (tmp_path / "b.yaml").write_text("x: wrong\n")
    monkeypatch.chdir(tmp_path)
    path = Path("link/a.yaml")
    root = yaml.read_mapping(path, "file")
    assert isinstance(root.value, dict)
    assert yaml.find_beside(path, root.value["file"], ("file",)).read_text() == "x: right\n"

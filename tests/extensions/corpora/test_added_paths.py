"""Paths of added text."""

from pathlib import Path

import pytest

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.yaml import load_config


def _refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        load_config(path, overrides)
    return str(refusal.value)


def test_a_path_meant_from_its_files_directory_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    there = tmp_path / "there"
    there.mkdir()
    (there / "my.yaml").write_text(
        "data:\n  kind: toy\n  more:\n  - {src: a.de,\n     tgt: a.en}\ntokenizer: {kind: words}\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    config = Path("../there/my.yaml")
    load_config(config)  # nothing is there: reading the text will say so
    (there / "a.en").touch()
    assert _refusal(config) == (
        f"../there/my.yaml:5: data.more[0].tgt: there is no {tmp_path}/here/a.en, because paths "
        "start from the working directory; did you mean ../there/a.en?"
    )
    Path("a.en").touch()
    load_config(config)
    Path("a.en").unlink()
    monkeypatch.chdir(there)
    load_config(Path("my.yaml"))

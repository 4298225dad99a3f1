"""A run records that it needs the extension."""

import json
from pathlib import Path

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import RunError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.runs.directory import RunDirectory, write_mark


def test_a_run_names_the_extensions_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"data": {"kind": "toy"}, "tokenizer": {"kind": "huggingface", "file": "a.json"}}
    config = Config.model_validate(settings)
    write_mark(tmp_path, config)
    write_mark(tmp_path, config)
    assert json.loads((tmp_path / "run.json").read_text())["extensions"] == ["tokenizers"]
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert RunDirectory(tmp_path).load_config() == config
    monkeypatch.setattr(registry, "_shipped", dict)
    with pytest.raises(RunError, match="was made with an extension; tokenizers: no such extension"):
        RunDirectory(tmp_path).load_config()

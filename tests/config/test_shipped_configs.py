"""Every configuration file in the repository loads and says what it is for."""

from pathlib import Path

import pytest

from transformer_cli.cli.init import find_configs
from transformer_cli.config.yaml import dump_config, load_config

_SHIPPED = list(find_configs().values())


def test_there_are_some() -> None:
    assert _SHIPPED


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: path.name)
def test_it_loads_and_says_what_it_is_for(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    first, second, *_ = path.read_text(encoding="utf-8").splitlines()
    assert first == "# yaml-language-server: $schema=schema.json"
    assert second.startswith("# ")
    assert second.endswith(".")  # what `init` lists
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(dump_config(config), encoding="utf-8")
    assert load_config(resolved) == config

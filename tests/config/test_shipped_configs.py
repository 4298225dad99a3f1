"""Every config of the core loads and says what it is for."""

from pathlib import Path

import pytest

from transformer_cli.cli.init import find_configs
from transformer_cli.config.yaml import dump_config, load_config

# Those of extensions may use each other's settings: tests/extensions/test_configs.py has them.
_OWN = [path for path in find_configs().values() if "extensions" not in path.parts]


def test_there_are_some() -> None:
    assert _OWN


@pytest.mark.parametrize("path", _OWN, ids=lambda path: path.name)
def test_it_loads_and_says_what_it_is_for(path: Path, tmp_path: Path) -> None:
    check_config(path, tmp_path)


def check_config(path: Path, tmp_path: Path) -> None:
    """Check that a shipped config loads and says what it is for."""
    config = load_config(path)
    first, second, *_ = path.read_text(encoding="utf-8").splitlines()
    assert first == "# yaml-language-server: $schema=schema.json"
    assert second.startswith("# ")
    assert second.endswith(".")  # what `init` lists
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(dump_config(config), encoding="utf-8")
    assert load_config(resolved) == config

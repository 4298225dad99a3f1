"""The configurations of extensions, which may need several extensions to load."""

from pathlib import Path

import pytest
from cli.test_init_command import check_written
from config.test_shipped_configs import check_config

from transformer_cli.cli.init import find_configs, shipped_configs

_ADDED = {name: path for name, path in find_configs().items() if "extensions" in path.parts}


@pytest.mark.parametrize("name", _ADDED)
def test_it_loads_and_says_what_it_is_for(name: str, tmp_path: Path) -> None:
    check_config(_ADDED[name], tmp_path)


@pytest.mark.long_cases
@pytest.mark.parametrize("name", sorted(_ADDED.keys() & shipped_configs()))
def test_what_init_writes_is_what_is_shipped_and_loads(name: str, tmp_path: Path) -> None:
    check_written(name, tmp_path)

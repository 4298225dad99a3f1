"""docs/sweeps.md has the keys of a sweep's file, and its examples are such files."""

import shutil
from pathlib import Path

import pytest

from documents.commands import ROOT, blocks
from transformer_cli.config.differences import as_yaml
from transformer_cli.jobs.sweep_file import SweepSettings, load_sweep

PAGE = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
EXAMPLES = ["\n".join(block.lines) for block in blocks(PAGE) if block.language == "yaml"]


def test_the_table_of_keys_is_the_schemas() -> None:
    rows = [
        f"| `{name}` | {_default(name)} | {field.description} |"
        for name, field in SweepSettings.model_fields.items()
    ]
    table = PAGE.partition("| key | default | what it is |\n|---|---|---|\n")[2]
    assert table.partition("\n\n")[0].splitlines() == rows


def _default(name: str) -> str:
    field = SweepSettings.model_fields[name]
    return "required" if field.is_required() else f"`{as_yaml(field.default)}`"


@pytest.mark.parametrize("text", EXAMPLES, ids=["grid", "search"])
def test_an_example_is_a_sweep(text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    file = tmp_path / "configs" / ("sweeps" if "../" in text else "") / "example.yaml"
    file.write_text(text)
    assert load_sweep(file).settings.evaluate or load_sweep(file).space

"""The page on experiments has the keys of sweeps and distillations, and its examples are valid."""

import re
import shutil
from pathlib import Path

import pytest
from documents.commands import ROOT, blocks

from transformer_cli.config.differences import as_yaml
from transformer_cli.config.sections import Section
from transformer_cli.extensions.experiments.distill_file import (
    Back,
    DistillSettings,
    Forward,
    load_distillation,
)
from transformer_cli.extensions.experiments.sweep_file import SweepSettings, load_sweep

PAGE = (ROOT / "docs" / "extensions" / "experiments.md").read_text(encoding="utf-8")
EXAMPLES = ["\n".join(block.lines) for block in blocks(PAGE) if block.language == "yaml"]
SWEEPS = [text for text in EXAMPLES if re.search(r"^(grid|points):", text, re.M)]
(DISTILLATION,) = (text for text in EXAMPLES if "teachers:" in text)


@pytest.mark.parametrize(
    "section", [SweepSettings, DistillSettings, Forward, Back], ids=lambda kind: kind.__name__
)
def test_the_tables_have_the_schemas_keys(section: type[Section]) -> None:
    for name, field in section.model_fields.items():
        if isinstance(field.default, Section):
            default = "see below"
        else:
            default = "required" if field.is_required() else f"`{as_yaml(field.default)}`"
        assert f"| `{name}` | {default} | {field.description} |\n" in PAGE


@pytest.mark.parametrize("text", SWEEPS, ids=["grid", "points"])
def test_an_example_is_a_sweep(text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    file = tmp_path / "configs" / ("sweeps" if "../" in text else "") / "example.yaml"
    file.write_text(text)
    assert len(load_sweep(file).points) > 1


def test_the_example_is_a_distillation(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    file = tmp_path / "configs" / "distill" / "example.yaml"
    file.write_text(DISTILLATION)
    assert load_distillation(file).settings.forward.n_best == 5

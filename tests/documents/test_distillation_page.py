"""docs/distillation.md has the keys of a distillation's file, and its example is such a file."""

import shutil
from pathlib import Path

import pytest

from documents.commands import ROOT, blocks
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.sections import Section
from transformer_cli.jobs.distill_file import Back, DistillSettings, Forward, load_distillation

PAGE = (ROOT / "docs" / "distillation.md").read_text(encoding="utf-8")
(EXAMPLE,) = ("\n".join(block.lines) for block in blocks(PAGE) if block.language == "yaml")


@pytest.mark.parametrize(
    "section", [DistillSettings, Forward, Back], ids=lambda each: each.__name__
)
def test_the_tables_have_the_schemas_keys(section: type[Section]) -> None:
    for name, field in section.model_fields.items():
        if isinstance(field.default, Section):
            default = "see below"
        else:
            default = "required" if field.is_required() else f"`{as_yaml(field.default)}`"
        assert f"| `{name}` | {default} | {field.description} |\n" in PAGE


def test_the_example_is_a_distillation(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    file = tmp_path / "configs" / "distill" / "example.yaml"
    file.write_text(EXAMPLE)
    assert load_distillation(file).settings.forward.n_best == 5

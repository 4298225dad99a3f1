"""Search engines: what each states that it can do, which one is chosen, and how rooms import."""

from pathlib import Path

import pytest

import transformer_cli
from transformer_cli.config.choices import EngineName
from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import choose_engine
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.runs.directory import RunDirectory

ENGINES: dict[str, type[SearchEngine]] = {"torch": TorchEngine, "ctranslate2": CTranslate2Engine}


def test_engines_state_what_they_can_do() -> None:
    able = {
        name: (engine.supports_prefixes, engine.supports_alignments)
        for name, engine in ENGINES.items()
    }
    assert able == {"torch": (True, True), "ctranslate2": (False, False)}


@pytest.mark.parametrize(
    ("name", "is_exported", "chosen"),
    [
        ("auto", False, "torch"),
        ("auto", True, "ctranslate2"),
        ("torch", True, "torch"),
        ("ctranslate2", False, "ctranslate2"),
    ],
)
def test_an_exported_model_is_searched_by_ctranslate2_unless_told_otherwise(
    name: EngineName, is_exported: bool, chosen: str, tmp_path: Path
) -> None:
    if is_exported:
        (tmp_path / "model.bin").touch()
    assert choose_engine(RunDirectory(tmp_path), name) is ENGINES[chosen]


@pytest.mark.parametrize("room", ["inference", "evaluation"])
def test_no_import_is_for_type_checkers_only(room: str) -> None:
    files = sorted((Path(transformer_cli.__file__).parent / room).glob("*.py"))
    assert len(files) > 3
    assert [path.name for path in files if "TYPE_CHECKING" in path.read_text()] == []

"""Python programs with models that are exchanged with other programs."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from extensions.python_api.test_translator import LINES, translator
from transformer_cli import Translator
from transformer_cli.base.errors import RunError

__all__ = ["translator"]


@pytest.mark.long
def test_a_shared_model_loads(training: Training, translator: Translator, tmp_path: Path) -> None:
    run("export", training.run, tmp_path / "shared", "--format", "hub")
    assert Translator.load(tmp_path / "shared").translate(LINES) == translator.translate(LINES)


def test_a_model_of_transformers_is_led_to_import(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "marian", "d_model": 8}')
    with pytest.raises(RunError, match=f"transformers model.* import {tmp_path} RUN"):
        Translator.load(tmp_path)
    assert_refused(run("translate", tmp_path, stdin=b"x\n"), 1, f"import {tmp_path} RUN")

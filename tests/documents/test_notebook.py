"""docs/notebook.ipynb runs from top to bottom, and its stored outputs are what it prints."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from documents.commands import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
STEPS = "steps = 250"
FEW = """steps = 2
for path in Path("data/toy").glob("*.[de][en]"):
    path.write_text("\\n".join(read_lines(path)[:8]) + "\\n", encoding="utf-8")
"""
PATIENCE = 300


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def stop_at_errors(source: str) -> str:
    """Cell text that fails where a command does, which IPython overlooks."""
    return re.sub(r"^!.*$", r"\g<0>\nassert _exit_code == 0, _exit_code", source, flags=re.M)


def kinds(outputs: list[Any]) -> list[list[str]]:
    """What a cell puts out: its streams, and the types of its results and pictures."""
    return [
        [output.name] if output.output_type == "stream" else sorted(output.data)
        for output in outputs
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook, run in an empty directory with a few steps and lines."""
    from nbclient import NotebookClient

    notebook = read_notebook()
    assert sum(cell.source.count(STEPS) for cell in notebook.cells) == 1
    for cell in code_cells(notebook):
        cell.source = stop_at_errors(cell.source.replace(STEPS, FEW))
    directory = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        # The program and the packages that are being tested, and no kernel of the user's.
        patch.setenv(
            "PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        )
        patch.setenv("PYTHONPATH", str(ROOT))
        client = NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name="python3",
            coalesce_streams=True,
            resources={"metadata": {"path": str(directory)}},
        )
        client.execute()
    assert (directory / "runs" / "slow" / "metrics.jsonl").is_file()
    return notebook


@pytest.mark.long
def test_it_runs_and_its_outputs_are_of_the_stored_kinds(executed: Any) -> None:
    for stored, new in zip(code_cells(read_notebook()), code_cells(executed), strict=True):
        assert kinds(new.outputs) == kinds(stored.outputs), stored.source
        assert not any("\x1b" in output.get("text", "") for output in new.outputs), (
            "a notebook shows what moves a cursor as it is"
        )


def test_the_stored_outputs_are_from_one_whole_run_and_readable() -> None:
    cells = code_cells(read_notebook())
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        text = "".join(output.get("text", "") for output in cell.outputs)
        assert "\x1b" not in text
        assert "\r" not in text
        assert "error" not in text.lower()
        assert len(text.splitlines()) <= 30
    assert NOTEBOOK.stat().st_size < 400_000

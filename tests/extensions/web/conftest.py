"""A small trained model and its export as a web page, which several tests share."""

import importlib.util
from pathlib import Path

import pytest
from cli.process import run

from extensions.web.exporting import export, has_runtime, write_small

# It needs the extension with the page, which may be deleted.
if importlib.util.find_spec("transformer_cli.extensions.serve") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("runtime") and not has_runtime():
            item.add_marker(pytest.mark.skip(reason="no Node, or no node_modules/onnxruntime-web"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a model that has seen a few captions."""
    directory = tmp_path_factory.mktemp("trained")
    finished = run("train", write_small(directory), cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / "small"


@pytest.fixture(scope="session")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with ONNX Runtime on a CDN."""
    return export(trained, tmp_path_factory.mktemp("exported"))

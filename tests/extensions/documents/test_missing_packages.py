"""Errors about missing packages that documents need."""

from functools import partial
from pathlib import Path

from cli.process import assert_refused, run
from cli.test_missing_packages import hide


def test_a_document_is_named_before_the_model_is_loaded(own_run: Path, tmp_path: Path) -> None:
    document = tmp_path / "a.html"
    document.write_text("<p>a b</p>")
    for weights in own_run.glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(b"damaged")  # which loading the model would report
    command = ("translate", own_run, "-i", document, "-o", tmp_path / "b.html")
    refused = run(*command, before=partial(hide, ("sentencex",)))
    assert_refused(refused, 1, f"{document}: needs the package sentencex", "'sentencex>=")

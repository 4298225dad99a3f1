"""Errors about missing packages that extensions need: each names the package and the fix."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.test_missing_packages import (
    CTRANSLATE2,
    EXPORT,
    REPORT,
    test_where_it_is_needed as refuse,
)


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("package", "command", "advice"),
    [
        ("plotly", ["report", "{run}", "-o", "r.html"], REPORT),
        ("jinja2", ["report", "{run}", "-o", "r.html"], REPORT),
        ("onnx", ["export", "{run}", "exported", "--format", "onnx"], EXPORT),
        ("ctranslate2", ["export", "{run}", "exported", "--format", "ctranslate2"], CTRANSLATE2),
        ("ctranslate2", ["translate", "{run}", "--engine", "ctranslate2"], CTRANSLATE2),
        ("huggingface_hub", ["import", "some/model", "made"], "pip install 'huggingface-hub"),
        (
            "tokenizers",
            ["vocab", "{config}", "--set", "tokenizer={{kind: huggingface, file: my.json}}"],
            "my.json: needs the package tokenizers",
        ),
        (
            "markdown_it",
            ["translate", "{run}", "-i", "a.md", "-o", "b.md"],
            "a.md: needs the package markdown_it",
        ),
    ],
)
def test_packages_that_an_extension_needs(
    training: Training, tmp_path: Path, package: str, command: list[str], advice: str
) -> None:
    refuse(training, tmp_path, package, command, advice)

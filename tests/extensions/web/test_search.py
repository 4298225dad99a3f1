"""The page's modules write the same as NumPy and ONNX Runtime do with the same graphs."""

from pathlib import Path

import pytest

from extensions.web.exporting import ROOT, in_node
from extensions.web.reference import Reference

LINES = (ROOT / "data" / "toy" / "test.de").read_text(encoding="utf-8").splitlines()[:30]
pytestmark = pytest.mark.runtime


@pytest.mark.parametrize("alternatives", [0, 3])
def test_translations_are_those_of_onnx_runtime(
    exported: Path, tmp_path: Path, alternatives: int
) -> None:
    found = in_node(tmp_path, directory=str(exported), texts=LINES, alternatives=alternatives)
    reference = Reference(exported)
    for line, answer in zip(LINES, found, strict=True):
        first, *others = reference.translate(line, 4 if alternatives else 1)
        distinct = dict.fromkeys(others[:alternatives])
        assert answer["translatedText"] == first
        assert answer["alternatives"] == [each for each in distinct if each != first]
    assert len({answer["translatedText"] for answer in found}) > 10

"""Files whose lines are not sentences."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run


@pytest.mark.parametrize("name", ["x.docx", "x.csv.gz", "x.XML", "x.mdx"])
@pytest.mark.parametrize("options", [(), ("--memory", "in")])
def test_files_whose_lines_are_no_sentences_are_refused(
    training: Training, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    for each in (name, "in"):
        (tmp_path / each).write_bytes(b"1 2\n")
    refused = run("translate", training.run, "-i", name, "-o", "out", *options, cwd=tmp_path)
    assert_refused(refused, 2, f"{name}: its lines are not sentences")

"""Tables of other names."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_translate_forms import here

from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import RowFormat, count_lines, open_format

__all__ = ["here"]


def test_a_table_of_another_name_is_read_where_its_text_is_named(
    training: Training, here: Path
) -> None:
    (here / "x.csv").write_text("a\t1 2\n")
    finished = run("translate", training.run, "-i", "x.csv", "--src-column", "2", cwd=here)
    assert finished.out.startswith("a\t1 2\t")
    (here / "x.csv").write_text("1 2,2 1\n")
    refused = run("translate", training.run, "-i", "x.csv", "--src-column", "1", cwd=here)
    assert_refused(refused, 1, "x.csv:1: has no tab; columns are separated by tabs")
    named = run("translate", training.run, "-i", "x.csv", "--src-column", "de", cwd=here)
    assert_refused(named, 1, "x.csv:1: has no tab; columns are separated by tabs")
    (here / "x.csv").write_text("1 2\n\n2 1\n")
    assert run("translate", training.run, "-i", "x.csv", "--src-column", "1", cwd=here).code == 0


@pytest.mark.parametrize(
    ("name", "text", "options", "lines"),
    [
        ("in.tsv", "src\ttgt\na\tb\n", {"src_column": "src"}, 2),
        ("in.jsonl", '{"src": "a"}\n', {"src_field": "src"}, 1),
    ],
)
def test_lines_of_tables_are_counted(
    tmp_path: Path, name: str, text: str, options: dict[str, str], lines: int
) -> None:
    (tmp_path / name).write_text(text)
    output = tmp_path / f"out{Path(name).suffix}"
    given = build_options(
        TranslateOptions,
        "translate",
        run=tmp_path,
        input_=tmp_path / name,
        output=output,
        **options,
    )
    form = open_format(given)
    assert isinstance(form, RowFormat)
    assert count_lines(given) == lines

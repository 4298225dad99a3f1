"""Tables of other names."""

from pathlib import Path

from cli.conftest import Training
from cli.process import assert_refused, run


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

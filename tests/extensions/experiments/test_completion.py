"""Completion of what is compared."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from extensions.completion.test_completing import bash, complete
from transformer_cli.extensions.completion.completing import complete as complete_value


def test_splits_of_a_named_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("data: {kind: files, test: {news: {}}}\n")
    context: Any = SimpleNamespace(args=[str(tmp_path / "a"), "b"], params={})
    assert [name for name, _ in complete_value("[RUN:]NAME", context, "")] == [
        "train",
        "val",
        "news",
    ]
    assert complete(bash("compare", "b", "c", "--split", "a:n"), tmp_path) == ["a:news"]
    assert complete(bash("compare", "b", "c", "--split", "a", ":", "n"), tmp_path) == ["news"]
    assert complete(bash("compare", "b", "c", "--split", "a", ":"), tmp_path) == [
        *("train", "val", "news")
    ]

"""Sources that are pipes, devices or links: none hangs."""

from pathlib import Path

import pytest
from faults.test_foreign_directory import Replaced

from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.settings import SourceConfig

pytestmark = pytest.mark.posix


@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize(
    "source",
    [
        {"src": "a", "tgt": "a"},
        {"tsv": "a", "src_column": "1", "tgt_column": "2"},
        {"jsonl": "a", "src_field": "s", "tgt_field": "t"},
        {"parquet": "a", "src_field": "s", "tgt_field": "t"},
        {"tmx": "a"},
        {"po": "a"},
    ],
    ids=lambda source: next(iter(source)),
)
def test_a_source_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    reader = open_source(SourceConfig.model_validate(source), "de", "en")
    with Replaced(Path("a"), kind):
        for read in (lambda: list(reader.pairs()), reader.source_sha256):
            with pytest.raises(CorpusError, match=r"/a: [^\n]*$"):
                read()

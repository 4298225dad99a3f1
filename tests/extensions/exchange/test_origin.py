"""The origin of an imported run, which later runs copy."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.extensions.exchange.imported import find_import_source
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run


def test_the_origin_of_an_imported_model_is_taken_over(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / name) for name in ("a", "b", "c")]
    runs[0].path.mkdir()
    record = {"source": "me/model", "revision": "1"}
    (runs[0].path / "import.json").write_text(json.dumps(record))
    for earlier, begun in pairwise(runs):
        settings = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
        config = Config.model_validate({**settings, "init": str(earlier.path)})
        initialize_run(begun, config)
    shutil.rmtree(runs[0].path)
    assert find_import_source(runs[2].path) == "me/model at commit 1"

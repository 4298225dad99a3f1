"""Which settings of a corpus may change before a training goes on."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from runs.test_run_directory import run, settings, trained

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import check_resumable, initialize_run, is_data_outdated

__all__ = ["run", "trained"]

VAL = {"tsv": "old-*.tsv", "src_column": "de", "tgt_column": "en", "tag": "news"}


@pytest.mark.parametrize("key", ["src_column", "tag", "tsv", "moved"])
def test_only_files_may_have_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.chdir(tmp_path)

    def corpus(val: dict[str, str]) -> Config:
        sources = [{"src": "a", "tgt": "b"}]
        data = {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": sources}
        return settings(data={**data, "val": val})

    run = RunDirectory(tmp_path / "run")
    initialize_run(run, corpus(VAL))
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    (run.checkpoints / "step-00000001" / "state.json").write_text("{}")
    if key == "moved":
        check_resumable(run, corpus({**VAL, "tsv": "new-*.tsv"}))
        return
    (tmp_path / "old-1.tsv").touch()
    with pytest.raises(ConfigError, match=f"other settings \\(data.val.{key} was "):
        check_resumable(run, corpus({**VAL, key: "other"}))


def of_sources(*sources: dict[str, Any]) -> Config:
    table = {"src_column": 1, "tgt_column": 2}
    data = {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "split": {"val": 1, "test": 1}}
    return settings(data={**data, "sources": [{**source, **table} for source in sources]})


def test_a_source_may_move_while_another_stays(trained: RunDirectory, tmp_path: Path) -> None:
    here, gone, moved = (str(tmp_path / name) for name in ("here.tsv", "gone.tsv", "moved.tsv"))
    for path in (here, moved):
        Path(path).touch()
    trained.config.write_text(dump_config(of_sources({"tsv": here}, {"tsv": gone})))
    check_resumable(trained, of_sources({"tsv": here}, {"tsv": moved}))
    with pytest.raises(ConfigError, match="trained with other settings"):
        check_resumable(trained, of_sources({"tsv": moved}, {"tsv": gone}))


@pytest.mark.parametrize("begun", [False, True])
def test_the_sum_of_a_file_may_be_added(run: RunDirectory, begun: bool) -> None:
    url = {"tsv": "https://example.org/a.tsv"}
    run.config.write_text(dump_config(of_sources(url)))
    if begun:
        (run.checkpoints / "step-00000001").mkdir()
    summed = of_sources({**url, "sha256": "0" * 64})
    check_resumable(run, summed)
    assert not is_data_outdated(run, summed)
    assert is_data_outdated(run, of_sources({**url, "weight": 2})) != begun
    run.config.write_text(dump_config(summed))
    for other in (url, {**url, "sha256": "1" * 64}):
        with pytest.raises(ConfigError) if begun else nullcontext():
            check_resumable(run, of_sources(other))

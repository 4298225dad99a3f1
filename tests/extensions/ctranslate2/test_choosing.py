"""Which search engine is chosen: CTranslate2 where it writes the same text."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.tokenizer_schema import (
    SentencePieceConfig,
    TokenizerConfig,
    WordsConfig,
)
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.ctranslate2 import choosing, engine
from transformer_cli.extensions.tokenizers.settings import (
    HuggingFaceConfig,
    SentencePieceFileConfig,
)
from transformer_cli.inference.engine import SearchOptions
from transformer_cli.inference.loading import ComputeOptions, choose_engine
from transformer_cli.inference.translator import never
from transformer_cli.runs.directory import RunDirectory

SUBWORDS = SentencePieceConfig(kind="sentencepiece")


# Each has <unk> in its training targets.
WITH_UNK: list[TokenizerConfig] = [
    SentencePieceConfig(kind="sentencepiece", byte_fallback=False),
    SentencePieceFileConfig(kind="sentencepiece_file", model=Path("made_elsewhere.model")),
    HuggingFaceConfig(kind="huggingface", file=Path("made_elsewhere.json")),
]


LEARNED = ModelConfig(positions="learned")


@pytest.mark.parametrize(
    ("asked", "changes", "chosen"),
    [
        (ComputeOptions(), {}, "ctranslate2"),
        (ComputeOptions(precision="float32"), {}, "ctranslate2"),
        (ComputeOptions(precision="int8"), {}, "ctranslate2"),
        (ComputeOptions(engine="torch"), {}, "torch"),
        (ComputeOptions(precision="bfloat16"), {}, "torch"),
        (ComputeOptions(device="cuda"), {}, "torch"),
        (ComputeOptions(engine="ctranslate2", precision="bfloat16"), {}, "ctranslate2"),
        (ComputeOptions(), {"tokenizer": WordsConfig(kind="words")}, "torch"),
        *(
            (
                ComputeOptions(search={"beam_size": option}),
                {"tokenizer": each, "decoding": setting},
                chosen,
            )
            for each in WITH_UNK
            for option, setting, chosen in (
                (None, DecodingConfig(beam_size=1), "ctranslate2"),
                (None, DecodingConfig(beam_size=3), "torch"),
                (3, DecodingConfig(beam_size=1), "torch"),
                (1, DecodingConfig(beam_size=3), "ctranslate2"),
            )
        ),
        (ComputeOptions(), {"decoding": DecodingConfig(max_length_ratio=3.0)}, "torch"),
        (
            ComputeOptions(),
            {"decoding": DecodingConfig(max_length_ratio=3.0), "model": LEARNED},
            "ctranslate2",
        ),
    ],
)
def test_auto_is_ctranslate2_where_it_writes_the_same_text_on_a_cpu(
    asked: ComputeOptions, changes: dict[str, Any], chosen: str, tmp_path: Path
) -> None:
    config = Config(data=ToyData(kind="toy"), tokenizer=SUBWORDS).model_copy(update=changes)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    if torch.cuda.is_available():
        asked = replace(asked, device="cpu" if asked.device == "auto" else asked.device)
    assert choose_engine(RunDirectory(tmp_path), asked) == chosen


@pytest.mark.parametrize("name", DecodingConfig.model_fields)
def test_each_setting_of_the_search_leads_to_the_engine_that_follows_it(
    name: str, tmp_path: Path
) -> None:
    config = Config(data=ToyData(kind="toy"), tokenizer=SUBWORDS, model=LEARNED)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    changed = {name: (getattr(config.decoding, name) or 3) + 1}
    chosen = "ctranslate2" if choosing._FOLLOWED.get(name) else "torch"
    assert (
        choose_engine(RunDirectory(tmp_path), ComputeOptions(device="cpu", search=changed))
        == chosen
    )


def test_auto_is_torch_for_what_only_torch_has_and_where_ctranslate2_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(data=ToyData(kind="toy"), tokenizer=SUBWORDS)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    run, cpu = RunDirectory(tmp_path), ComputeOptions(device="cpu")
    assert choose_engine(run, cpu) == "ctranslate2"
    assert choose_engine(run, cpu, ["--alignments"]) == "torch"
    assert choose_engine(run, cpu, prefers_torch=True) == "torch"
    assert choose_engine(run, ComputeOptions(device="cuda", precision="float32")) == "torch"
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert choose_engine(run, cpu) == "torch"


def test_a_setting_of_the_search_that_ctranslate2_does_not_follow_as_torch_does_needs_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(choosing._FOLLOWED, "length_penalty")
    monkeypatch.setitem(choosing._FOLLOWED, "max_length_ratio", False)
    config = Config(data=ToyData(kind="toy"), tokenizer=SUBWORDS)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    run, cpu = RunDirectory(tmp_path), ComputeOptions(device="cpu")
    assert choose_engine(run, cpu) == "ctranslate2"
    assert choose_engine(run, replace(cpu, search={"length_penalty": None})) == "ctranslate2"
    assert choose_engine(run, replace(cpu, search={"length_penalty": 1.0})) == "torch"
    assert choose_engine(run, replace(cpu, search={"max_length_ratio": 1.5})) == "torch"
    asked = SearchOptions(0, 1, (), DecodingConfig(length_penalty=1.0))
    ctranslate2 = engine.CTranslate2Engine(None, [], [], max_positions=9)
    with pytest.raises(UsageError, match=r"not support decoding\.length_penalty; use .* torch"):
        ctranslate2.search([], [], asked, 1, print, never)
    allowed = SearchOptions(0, 1, (), DecodingConfig(max_length_ratio=1.5))
    ctranslate2 = engine.CTranslate2Engine(SimpleNamespace(compute_type="int8"), [], [], 9)
    assert ctranslate2.search([], [], allowed, 1, print, never) == []


def test_an_exported_model_is_searched_by_ctranslate2_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    (tmp_path / "model.bin").touch()
    exported = RunDirectory(tmp_path)
    assert choose_engine(exported, ComputeOptions(), prefers_torch=True) == "ctranslate2"
    assert choose_engine(exported, ComputeOptions("torch"), prefers_torch=True) == "torch"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ComputeOptions(engine="torch", precision="int8"), "`engine` torch does not support it"),
        (ComputeOptions(device="cuda", precision="int8"), "`precision` int8: .* only runs on CPUs"),
        (ComputeOptions("ctranslate2", "cuda"), "`engine` ctranslate2: .* only runs on CPUs"),
    ],
)
def test_int8_is_ctranslate2s_which_is_for_cpus(
    asked: ComputeOptions, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        choose_engine(RunDirectory(tmp_path), asked)


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        (ComputeOptions("ctranslate2"), "`engine` ctranslate2"),
        (ComputeOptions("ctranslate2", precision="int8"), "`precision` int8"),
        (ComputeOptions(precision="int8"), "`precision` int8"),
    ],
)
def test_what_needs_torch_is_refused_by_what_is_in_its_way(
    asked: ComputeOptions, option: str, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(UsageError, match=f"{option}: .* leave out {option} or --sample$"):
        choose_engine(run, replace(asked, device="cpu"), ["--sample"])

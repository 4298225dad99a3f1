"""What bench measures; how fast anything is, depends on the machine and is not tested."""

import json
from collections.abc import Iterator

import pytest
import torch
from cli import process

from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.schema import Config, ModelConfig, TrainingConfig
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.extensions.bench import bench as benches
from transformer_cli.extensions.bench.bench import Bench

CPU = torch.device("cpu")


def small_bench(device: torch.device = CPU) -> Bench:
    """One call of each kind, with a tiny model."""
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "tying": "all"}
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=SentencePieceConfig(kind="sentencepiece", vocab_size=50),
        model=ModelConfig.model_validate(sizes),
        training=TrainingConfig(batch_tokens=100),
    )
    return Bench(config, device, seconds=0.0)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(benches, "_SEARCH_TOKENS", 60)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_one_thread_and_all_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "has_bfloat16", lambda: False)
    kinds = [("training", "float32"), ("translation", "float32"), ("translation", "int8")]
    torch.set_num_threads(3)
    assert small_bench().plan() == [(*kind, threads) for threads in (1, 3) for kind in kinds]


def test_all_that_is_planned_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "has_bfloat16", lambda: True)  # it is emulated at worst
    bench = small_bench()
    plan = [
        *(("training", "float32"), ("training", "bfloat16")),
        *(("translation", "float32"), ("translation", "bfloat16"), ("translation", "int8")),
    ]
    assert [entry[:2] for entry in bench.plan()] == plan
    speeds = list(bench.measure())
    assert [(one.what, one.precision) for one in speeds] == plan
    assert all(one.tokens_per_second > 0 for one in speeds)
    engines = [one.engine for one in speeds if one.what == "translation"]
    assert engines == ["ctranslate2", "torch", "ctranslate2"]


def test_without_ctranslate2_torch_translates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "has_bfloat16", lambda: False)
    monkeypatch.setattr(benches, "_has_ctranslate2", lambda: False)
    speeds = list(small_bench().measure())
    whats = ["training", "translation"]
    assert [(one.what, one.engine) for one in speeds] == [(what, "torch") for what in whats]


@pytest.mark.gpu
def test_a_gpu_is_measured() -> None:
    bench = small_bench(torch.device("cuda"))
    assert [one.what for one in bench.measure()] == [what for what, *_ in bench.plan()]


def test_the_model_is_a_shipped_one() -> None:
    assert Bench.of_shipped_model(CPU).vocab == 8000


def _make_small() -> None:
    benches.Bench.of_shipped_model = small_bench  # type: ignore[method-assign]
    benches.has_bfloat16 = lambda: False  # type: ignore[attr-defined]
    benches.measure_load = lambda: 0.0


def _make_small_and_busy() -> None:
    _make_small()
    benches.measure_load = lambda: 0.25


def test_a_table_for_people() -> None:
    finished = process.run("bench", before=_make_small)
    assert (finished.code, finished.err) == (0, "")
    facts, table = finished.out.split("\n\n")
    assert facts.startswith("processor ")
    lines = table.splitlines()
    assert " ".join(lines[0].split()) == "by precision threads tokens/s"
    whats = ["training", "translation", "translation"]
    assert [line.split("  ")[0] for line in lines[1:]] == whats


def test_json_for_programs() -> None:
    finished = process.run("bench", "--json", before=_make_small_and_busy)
    assert finished.code == 0
    busy = "other programs use 25% of the processor: measure again without them\n"
    assert finished.err == busy
    found = json.loads(finished.out)
    assert found["load"] == 0.25
    assert found["machine"]["device"] == "cpu"
    assert [one["precision"] for one in found["speeds"]] == ["float32"] * 2 + ["int8"]

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.decoding import refuse_other_forms
from benchmarks.decoding_job import BatchSizes, Job, compete
from benchmarks.decoding_report import CTRANSLATE2, JOEYNMT, OURS, FilterPass, report
from transformer_cli.config.schema import ModelConfig
from transformer_cli.text.protocol import Tokenizer

EOS_ID = 2


@pytest.fixture
def job() -> Job:
    return Job(
        run="run",
        weights="model.safetensors",
        model={"d_model": 8},
        vocab_size=9,
        sources=[[4, EOS_ID], [5, 6, 7, EOS_ID], [8, 4, EOS_ID]],
        limits=[1, 3, 2],
    )


def test_a_job_survives_its_file(job: Job, tmp_path: Path) -> None:
    job.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == job


def test_longest_sources_come_first(job: Job) -> None:
    assert job.longest_first() == [1, 2, 0]


def test_a_contestant_tries_all_sizes_on_all_sentences_and_is_cut_at_their_limits(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = set()

    def translate(sentences: Sequence[int], beam_size: int, batch_size: int) -> list[list[int]]:
        if len(sentences) == 3:
            tried.add((beam_size, batch_size))
        return [[number, beam_size, 4, 4] for number in sentences]

    sizes = BatchSizes(greedy=(1, 2), beam=(3,), unit="sentences")
    compete(translate, job, [1, 2, 0], sizes, tmp_path / "outputs.json")

    assert tried == {(1, 1), (1, 2), (5, 3)}
    result = json.loads(capsys.readouterr().out)
    assert result["greedy_batch"] in ("1 sentences", "2 sentences")
    assert result["beam5_batch"] == "3 sentences"
    assert result["greedy_sentences_per_second"] > 0
    assert json.loads((tmp_path / "outputs.json").read_text(encoding="utf-8")) == {
        "sentences": [1, 2, 0],
        "greedy": [[1, 1, 4], [2, 1], [0]],
        "beam5": [[1, 5, 4], [2, 5], [0]],
    }


class Letters(Tokenizer):
    size = 9

    def encode(self, line: str) -> list[int]:
        raise AssertionError("outputs are only decoded")

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join("abcdefghi"[number] for number in ids)

    def token(self, number: int) -> str:
        return str(number)


def test_the_report_holds_each_sentence_against_its_own_reference(tmp_path: Path) -> None:
    first, second = [4, 5, 6, 7], [7, 6, 5, 4]

    def result(name: str, speed: float, outputs: dict[int, list[int]]) -> list[dict[str, object]]:
        path = tmp_path / f"{name}.json"
        ids = list(outputs.values())
        content = {"sentences": list(outputs), "greedy": ids, "beam5": ids}
        path.write_text(json.dumps(content), encoding="utf-8")
        figures: dict[str, object] = {"outputs_file": str(path)}
        for search in ("greedy", "beam5"):
            figures[f"{search}_sentences_per_second"] = speed
            figures[f"{search}_batch"] = "7 tokens"
        return [figures]

    results = {
        OURS: result("ours", 30.0, {0: first, 1: second}),
        CTRANSLATE2[0]: result("one", 60.0, {1: second, 0: second}),
        CTRANSLATE2[1]: result("two", 40.0, {1: second, 0: second}),
        JOEYNMT: result("joeynmt", 10.0, {1: second}),
    }
    lines = report(results, FilterPass(Letters(), ["e f g h", "h g f e"])).splitlines()

    speeds, comparison = [line for line in lines if line.startswith(f"| {OURS}")]
    assert speeds == f"| {OURS} | 30 | 0.50 | 3.00 | 30 | 0.50 | 3.00 |"
    assert comparison == f"| {OURS} | {' | '.join(2 * ['7 tokens', '2 of 2', '100.00'])} |"
    assert any(line.startswith(f"| {CTRANSLATE2[0]} | 7 tokens | 1 of 2 |") for line in lines)
    assert any(line.startswith(f"| {JOEYNMT} | 7 tokens | 1 of 1 | 100.00 |") for line in lines)


def test_a_model_that_the_other_programs_cannot_have_is_refused() -> None:
    refuse_other_forms(ModelConfig(tying="all"))
    with pytest.raises(SystemExit, match=r"model\.tying: none; .* all"):
        refuse_other_forms(ModelConfig(tying="none"))

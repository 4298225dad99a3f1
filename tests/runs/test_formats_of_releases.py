"""What is written in the formats of 1.0, this version opens, translates by, scores and trains on.

tests/fixtures/make_runs.py wrote the files, once for each release with another format.
"""

import json
import shutil
from pathlib import Path

import pytest
from cli import process

from transformer_cli import Translator

V1 = Path(__file__).parents[1] / "fixtures" / "v1"
EXPECTED = json.loads((V1 / "expected.json").read_text("utf-8"))


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    copy = tmp_path / str(request.param)
    shutil.copytree(V1 / request.param, copy)
    return copy


@pytest.mark.parametrize("run", [*EXPECTED, "exported"], indirect=True)
def test_it_translates_as_it_did(run: Path) -> None:
    lines = EXPECTED["words" if run.name == "exported" else run.name]["translations"]
    translated = Translator.load(run).translate(list(lines))
    assert translated == list(lines.values())


@pytest.mark.long_cases
@pytest.mark.parametrize("run", EXPECTED, indirect=True)
def test_it_scores_as_it_did_and_trains_on(run: Path) -> None:
    kind, directory = run.name, run.parent
    finished = process.run("evaluate", run, "--split", "val", "--json", cwd=directory)
    assert finished.code == 0, finished.err
    scored, expected = json.loads(finished.out), EXPECTED[kind]
    assert scored["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-3)
    # A rounding may turn the search where the model is in doubt.
    assert scored["scores"]["bleu"]["value"] == pytest.approx(expected["bleu"], abs=3.0)
    step = scored["step"] + 2
    more = ("--set", "training.epochs=20", "--set", f"training.max_steps={step}", "--extend")
    finished = process.run("train", V1 / f"{kind}.yaml", "--run-dir", run, *more, cwd=directory)
    assert finished.code == 0, finished.err
    assert (run / "checkpoints" / f"step-{step:08}").is_dir()

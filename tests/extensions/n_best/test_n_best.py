"""Several translations of a line, with scores."""

import json
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_translate_forms import TEXT, in_small_chunks, killed_at_the_last_line, translate


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text(TEXT)
    return tmp_path


def test_n_best_is_an_object_a_line(training: Training, here: Path) -> None:
    found = [json.loads(each) for each in translate(training, here, "--n-best", "3").splitlines()]
    assert [each["line"] for each in found] == [1, 2, 3, 4]
    empty = {"text": "", "score": 0.0, "log_probability": 0.0}
    assert found[1]["translations"] == [empty]
    plain = translate(training, here, "--beam-size", "3").splitlines()
    assert [each["translations"][0]["text"] for each in found] == plain
    for each in found:
        scores = [translation["score"] for translation in each["translations"]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) <= 3
    (alone, *_) = translate(training, here, "--scores").splitlines()
    assert len(json.loads(alone)["translations"]) == 1


def test_a_length_penalty_divides_the_scores(training: Training, here: Path) -> None:
    for penalty in (0.0, 3.0):
        options = ("--n-best", "3", "--length-penalty", str(penalty))
        for line in translate(training, here, *options).splitlines():
            found = json.loads(line)["translations"]
            for each in found:
                tokens = len(each["text"].split())
                wanted = each["log_probability"] / ((6 + tokens) / 6) ** penalty
                # Texts that reached the length limit lack EOS, which otherwise counts as a token.
                assert each["score"] == pytest.approx(wanted, abs=2e-3)
            assert found == sorted(found, key=lambda each: -each["score"])


def test_a_narrow_beam_is_refused(training: Training, here: Path) -> None:
    command: list[str | Path] = [
        "translate",
        training.run,
        "-i",
        "in",
        "--n-best",
        "3",
        "--beam-size",
        "2",
    ]
    assert_refused(run(*command, cwd=here), 2, "beam of 2", "raise --beam-size")


def test_more_than_any_beam_holds_is_refused(training: Training) -> None:
    refused = run("translate", training.run, "--n-best", "1000000000")
    assert_refused(refused, 2, "'--n-best': Input should be less than or equal to 1000")


def test_samples_have_no_n_best(training: Training, here: Path) -> None:
    command = ("translate", training.run, "-i", "in", "--sample", "1")
    assert_refused(run(*command, "--n-best", "2", cwd=here), 2, "--sample draws one", "--n-best")
    scored = run(*command, "--scores", cwd=here)
    assert len(json.loads(scored.out.splitlines()[0])["translations"]) == 1


@pytest.mark.long
def test_an_interrupted_translation_goes_on_in_the_same_form_alone(
    training: Training, here: Path
) -> None:
    expected = translate(training, here, "--n-best", "2")
    command = ("translate", training.run, "-i", "in", "-o", "out", "--beam-size", "2", "--n-best")
    go_on = partial(run, cwd=here, before=in_small_chunks)
    assert run(*command, "2", cwd=here, before=killed_at_the_last_line).code < 0
    assert "n_best was 2, now 1" in go_on(*command, "1").err
    assert run(*command, "2", cwd=here, before=killed_at_the_last_line).code < 0
    finished = go_on(*command, "2")
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out").read_text() == expected

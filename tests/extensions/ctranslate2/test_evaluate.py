"""Evaluation in int8."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_evaluate import OTHER, report


def test_int8_translates_and_leaves_the_perplexity_as_it_is(training: Training) -> None:
    values, rounded = report(training.run), report(training.run, "--precision", "int8")
    assert (rounded["engine"], values["engine"]) == ("ctranslate2", "torch")  # a word model
    assert rounded["environment"]["precision"].startswith("int8")
    assert rounded["perplexity"] == values["perplexity"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ensemble", OTHER), "--precision int8: does not support --ensemble; leave out"),
        (("--device", "cuda"), "--precision int8: CTranslate2 only runs on CPUs"),
    ],
)
def test_int8_is_refused_before_models_are_loaded(
    options: tuple[str | Path, ...], said: str, training: Training
) -> None:
    # COMET, which is loaded before the models, is not installed.
    finished = run("evaluate", training.run, "--precision", "int8", "--comet", *options)
    assert_refused(finished, 2, said)

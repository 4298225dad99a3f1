"""Ensembles on the command line."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_evaluate import OTHER, report
from copied_text import FEWER


def test_an_ensemble_of_equal_models_scores_as_one(training: Training, own_run: Path) -> None:
    alone, both = report(training.run), report(training.run, "--ensemble", own_run)
    assert both["ensemble"] == [own_run.as_posix()]
    assert both["scores"] == alone["scores"]
    assert both["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-5)


def test_an_ensemble_that_does_not_go_together_is_refused(training: Training) -> None:
    checkpoint = training.run / "checkpoints" / "step-00000060"
    ensemble = training.run, "--ensemble", training.run, "--checkpoint", checkpoint
    refused = run("evaluate", *ensemble)
    assert_refused(refused, 2, "belongs to one run; with --ensemble, use best, last or average")
    refused = run("evaluate", training.run, "--ensemble", OTHER)
    assert_refused(refused, 2, f"--ensemble {OTHER}: its tokenizer differs from {training.run}")


def test_a_run_and_one_that_began_from_it_go_together(training: Training, tmp_path: Path) -> None:
    changes = (f"init={training.run}", "training.epochs=1", FEWER)
    options = [part for change in changes for part in ("--set", change)]
    grown = run("train", training.config, "--run-dir", tmp_path / "grown", *options)
    assert grown.code == 0, grown.err
    finished = run("evaluate", training.run, "--ensemble", tmp_path / "grown", "--split", "val")
    assert finished.code == 0, finished.err


def test_a_report_names_the_models(training: Training, own_run: Path) -> None:
    finished = run("evaluate", training.run, "--ensemble", own_run)
    assert finished.code == 0, finished.err
    assert f"ensemble with {own_run.as_posix()}\n" in finished.out


def test_an_ensemble_translates_as_its_models(training: Training, own_run: Path) -> None:
    alone = run("translate", training.run, stdin=b"s1 s2\n")
    both = run("translate", training.run, "--ensemble", own_run, stdin=b"s1 s2\n")
    assert (both.code, both.out) == (0, alone.out)

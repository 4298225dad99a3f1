import json
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import TINY, Training
from cli.process import assert_refused, run, signal_at
from transformer_cli.base import registry

CHECKPOINT_FILES = {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}


def records_of(run_dir: Path) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl except those that start a session."""
    lines = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [record for record in lines if record["kind"] != "session"]


def contents(directory: Path) -> dict[str, bytes]:
    """Return the content of every file in a directory, by its path.

    Leave out the lock, which names its last holder, and files that each session makes again.
    """
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock" and path.parent.name != "tensorboard"
    }


def test_run_directory_holds_all_that_a_model_needs(training: Training) -> None:
    assert {path.name for path in training.run.iterdir()} == {
        "run.json",
        "config.yaml",
        "tokenizer",
        "encoded",
        "checkpoints",
        "metrics.jsonl",
        ".lock",
        *filter(None, (each.load().writes for each in registry.entries("observer").values())),
    }
    checkpoints = sorted((training.run / "checkpoints").iterdir())
    assert [path.name for path in checkpoints][-2:] == ["step-00000050", "step-00000060"]
    assert len(checkpoints) <= 3
    for checkpoint in checkpoints:
        assert {path.name for path in checkpoint.iterdir()} == CHECKPOINT_FILES
    best_step = json.loads((checkpoints[-1] / "state.json").read_text())["content"]["best_step"]
    assert training.run / "checkpoints" / f"step-{best_step:08d}" in checkpoints


def test_metrics_are_the_records_shown(training: Training) -> None:
    records = records_of(training.run)
    shown = [(each["kind"], each["step"], each["epoch"]) for each in records]
    assert shown == [
        ("validation", 20, 4),
        ("validation", 40, 8),
        ("train", 50, 10),
        ("train", 60, 12),
        ("validation", 60, 12),
    ]
    # steps of 40 lines of 4 symbols and an end mark
    assert records[2]["tgt_tokens"] == 50 * 40 * 5
    assert records[3]["tgt_tokens"] == 10 * 40 * 5
    lines = [line for line in training.finished.err.splitlines() if line.startswith("step ")]
    assert [line.partition(":")[0] for line in lines] == [
        f"step {each['step']}/60, epoch {each['epoch']}" for each in records
    ]
    for each, line in zip(records, lines, strict=True):
        if each["kind"] == "train":
            assert f"gradient norm {each['grad_norm']:.2f}, " in line
            assert f"{each['tokens_per_second']:,} tok/s, " in line
            assert (" left" in line) == (each["eta_seconds"] > 0)
    best = [bool(each.get("best")) for each in records]
    assert ["(best)" in line for line in lines] == best


def test_validations_have_the_same_three_samples(training: Training) -> None:
    found = [each["samples"] for each in records_of(training.run) if "samples" in each]
    assert len(found) == 3  # one for each validation
    for samples in found:
        assert len(samples) == 3
        # Of the copy task, a reference is its source.
        assert all(each["source"] == each["reference"] != "" for each in samples)
        assert [each["source"] for each in samples] == [each["source"] for each in found[0]]
        for each in samples:
            assert f"  translation  {each['translation']}".rstrip() in training.finished.err
    assert found[-1] != found[0]


def test_result_is_the_only_line_on_stdout(training: Training) -> None:
    best = max(
        (each for each in records_of(training.run) if each["kind"] == "validation"),
        key=lambda each: (each["bleu"], -each["loss"]),
    )
    expected = (
        r"runs/tiny: trained 60 steps in \d+ s; best validation BLEU "
        rf"{best['bleu']:.2f} at step {best['step']}\n"
    )
    assert re.fullmatch(expected, training.finished.out)


def test_log_files_hold_no_bars(training: Training) -> None:
    assert "\r" not in training.finished.err
    assert "\x1b" not in training.finished.err


def test_the_same_command_again_has_nothing_to_do(training: Training, own_run: Path) -> None:
    before = contents(own_run)
    finished = run("train", training.config, "--run-dir", own_run)
    assert "nothing left to train: 60 steps are done\n" in finished.err
    assert finished.out.startswith(f"{own_run}: trained 60 steps in ")
    assert finished.code == 0
    assert contents(own_run) == before


def test_more_epochs_go_on_where_it_stopped(training: Training, own_run: Path) -> None:
    before = records_of(own_run)
    longer = ("--set", "training.epochs=14")
    finished = run("train", training.config, "--run-dir", own_run, *longer)
    assert "resuming from step 60\n" in finished.err
    assert finished.out.startswith(f"{own_run}: trained 70 steps in ")
    assert finished.code == 0
    after = records_of(own_run)
    assert after[: len(before)] == before
    assert [each["step"] for each in after[len(before) :]] == [70, 70]
    assert (own_run / "checkpoints" / "step-00000070").is_dir()


@pytest.mark.parametrize(
    ("trained", "now", "found"),
    [
        ("max_steps=5", "epochs=12", "training.max_steps was 5, now null"),
        ("max_steps=5", "max_steps=8", "training.max_steps was 5, now 8"),
        ("patience=1", "patience=9", "training.patience was 1, now 9"),
        ("epochs=2", "epochs=1", None),
        ("epochs=2", "max_steps=3", None),
        ("epochs=2", "patience=1", None),
    ],
)
def test_a_complete_run_is_trained_further_if_the_settings_allow_more(
    config: Path, trained: str, now: str, found: str | None
) -> None:
    # At this rate no validation is better than the first one.
    still = ("--set", "training.schedule.peak=1e-30", "--set", "training.validate_every=1")
    command = ("train", config, "--run-dir", "run", *still)
    first = run(*command, "--set", f"training.{trained}", cwd=config.parent)
    assert first.code == 0, first.err
    before = contents(config.parent / "run")
    again = run(*command, "--set", f"training.{now}", cwd=config.parent)
    assert again.code == 0, again.err
    if found is None:
        assert "nothing left to train" in again.err
        assert contents(config.parent / "run") == before
    else:
        assert f"\nchanged       {found}\n" in again.err
        assert "\nresuming from step " in again.err


def test_a_run_that_was_stopped_is_trained_further(config: Path) -> None:
    command = ("train", config, "--run-dir", "run")
    stop = partial(signal_at, "transformer_cli.training.trainer:Trainer", "_update", 12)
    assert run(*command, cwd=config.parent, before=stop).code == -signal.SIGKILL
    longer = run(*command, "--set", "training.epochs=13", cwd=config.parent)
    assert (longer.code, "resuming from step 10\n" in longer.err) == (0, True)


def test_what_is_changed_is_said(tmp_path: Path) -> None:
    config = tmp_path / "linear.yaml"
    schedule = "{kind: linear, peak: 1e-3, warmup: 10}"
    config.write_text(TINY.replace("{kind: constant, peak: 1e-2, warmup: 10}", schedule))
    command = ("train", config, "--run-dir", tmp_path / "run")
    first = run(*command)
    assert first.code == 0, first.err
    assert "\nchanged " not in first.err
    assert "warning" not in first.err

    searched = run(*command, "--set", "decoding.beam_size=3")
    assert "\nchanged       decoding.beam_size was 1, now 3\n" in searched.err
    assert "nothing left to train: 60 steps are done\n" in searched.err
    assert "beam_size: 3\n" in (tmp_path / "run" / "config.yaml").read_text()

    shorter = run(*command, "--set", "decoding.beam_size=3", "--set", "training.epochs=6")
    assert "nothing left to train: 60 steps are done\n" in shorter.err
    settings = (tmp_path / "run" / "config.yaml").read_text()
    assert ("epochs: 12\n" in settings, "epochs: 6\n" in settings) == (True, False)

    longer = ("--set", "training.epochs=16", "--precision", "bfloat16")
    dry = run(*command, *longer, "--dry-run")
    gone_on = run(*command, *longer)
    assert (dry.code, gone_on.code) == (0, 0), gone_on.err
    for said in (dry.out, gone_on.err):
        _, _, said = said.partition("\nchanged       ")
        assert said.splitlines()[:3] == [
            "training.epochs was 12, now 16",
            "              decoding.beam_size was 3, now 1",
            "              precision was float32, now bfloat16",
        ]
    records = records_of(tmp_path / "run")
    assert records[-1]["step"] == 80


def test_other_settings_are_refused_by_name(training: Training, own_run: Path) -> None:
    before = contents(own_run)
    changes = ("--set", "model.d_ff=64", "--set", "training.schedule.peak=0.02")
    refused = run("train", training.config, "--run-dir", own_run, *changes)
    assert_refused(
        refused,
        2,
        "model.d_ff was 32, now 64",
        "training.schedule.peak was 0.01, now 0.02",
        "--overwrite",
    )
    assert contents(own_run) == before


def test_settings_that_could_not_be_trained_with_are_not_recorded(
    training: Training, own_run: Path
) -> None:
    before = (own_run / "config.yaml").read_text()
    refused = run("train", training.config, "--run-dir", own_run, "--set", "training.accumulate=2")
    assert_refused(refused, 2, "training.accumulate: 2 batches x 1 process(es) = 2 per step")
    longer = ("--set", "training.epochs=50")
    assert run("vocab", training.config, "--run-dir", own_run, *longer).code == 0
    assert (own_run / "config.yaml").read_text() == before


def test_overwrite_starts_anew(training: Training, own_run: Path) -> None:
    changes = ("--set", "model.d_ff=64", "--set", "training.max_steps=5", "--overwrite")
    finished = run("train", training.config, "--run-dir", own_run, *changes)
    assert finished.code == 0
    assert "going on" not in finished.err
    assert [each["step"] for each in records_of(own_run)] == [5, 5]
    assert [path.name for path in (own_run / "checkpoints").iterdir()] == ["step-00000005"]
    assert "d_ff: 64" in (own_run / "config.yaml").read_text()


def test_an_averaged_model_is_trained_and_read_like_any_other(config: Path) -> None:
    straight, stopped = config.parent / "straight", config.parent / "stopped"
    levers = (
        *("--set", "training.ema_decay=0.9", "--set", "training.rdrop_alpha=2"),
        *("--set", "training.validate_every=5"),
    )

    def train(run_dir: Path, steps: int) -> str:
        settings = (*levers, "--set", f"training.max_steps={steps}")
        finished = run("train", config, "--run-dir", run_dir, *settings)
        assert finished.code == 0, finished.err
        return finished.err

    train(straight, 15)
    train(stopped, 10)
    assert "resuming from step 10\n" in train(stopped, 15)
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints", "step-00000015", name)
        assert (stopped / last).read_bytes() == (straight / last).read_bytes()

    validated = [each for each in records_of(stopped) if each["kind"] == "validation"][-1]
    checkpoint = ("--checkpoint", "last")
    evaluated = run("evaluate", stopped, *checkpoint, "--split", "val", "--json")
    assert evaluated.code == 0
    # Of the average, as validated: the weights themselves would be a few steps ahead.
    perplexity = json.loads(evaluated.out)["perplexity"]
    assert perplexity == pytest.approx(validated["perplexity"], rel=1e-6)
    translated = run("translate", stopped, *checkpoint, stdin=b"a b c d\n\nb b\n")
    assert translated.code == 0
    assert translated.out.count("\n") == 3


def test_patience_ends_the_training_for_good(config: Path) -> None:
    # Without learning no validation is better than the first.
    still = ("--set", "training.schedule.peak=1e-30", "--set", "training.patience=1")
    command = ("train", config, "--run-dir", config.parent / "run", *still)
    first, again, dry = run(*command), run(*command), run(*command, "--dry-run")
    assert first.out.startswith(f"{config.parent / 'run'}: trained 40 steps in ")
    assert "forecast" not in again.err + dry.out
    why = "ended early, after 1 validation without a better one (training.patience)\n"
    assert f"; {why}" in first.out
    assert f"nothing left to train: 40 steps are done; {why}" in again.err
    assert again.code == 0

"""What users see of a training: event files, its summary, and a dry run's summary."""

import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import Training
from cli.process import assert_refused, run, run_ranks, signal_at
from cli.test_kill import half_a_line

CURVES = {
    "train": (
        "loss",
        "perplexity",
        "learning_rate",
        "grad_norm",
        "tokens_per_second",
        "eta_seconds",
    ),
    "validation": ("loss", "perplexity", "bleu", "bleu_lc", "chrf"),
}
LONG = ("--set", "training.epochs=24")
"""120 steps, of which some are tried before."""


def assert_events_are_the_records(run_dir: Path) -> None:
    """There is one event file, with each curve of metrics.jsonl, point by point."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert len(list((run_dir / "tensorboard").iterdir())) == 1
    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    expected = {
        f"{kind}/{key}": [
            (each["step"], np.float32(each[key])) for each in records if each["kind"] == kind
        ]
        for kind, keys in CURVES.items()
        for key in keys
    }
    found = {
        tag: [(event.step, np.float32(event.value)) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }
    assert found == {tag: points for tag, points in expected.items() if points}
    # Their distances in time are the same as in training.
    assert {each["kind"] for each in records} == {*CURVES, "session"}
    times = [event.wall_time for event in events.Scalars("validation/loss")]
    seconds = [each["seconds"] for each in records if each["kind"] == "validation"]
    assert np.diff(times) == pytest.approx(np.diff(seconds), abs=1e-3)


def test_events_say_what_the_metrics_say(training: Training) -> None:
    assert_events_are_the_records(training.run)


_OBSERVER = "transformer_cli.extensions.observers.events:TensorBoardObserver"


@pytest.mark.posix
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            partial(signal_at, "transformer_cli.training.trainer:Trainer", "_update", 55),
            id="killed",
            marks=pytest.mark.long,
        ),
        pytest.param(
            partial(signal_at, "transformer_cli.training.trainer:Trainer", "_update", 55, 2),
            id="stopped",
            marks=pytest.mark.long,
        ),
        pytest.param(
            partial(signal_at, _OBSERVER, "on_record", 3),
            id="killed before an event",
        ),
        pytest.param(partial(half_a_line, 3), id="killed in a record"),
    ],
)
def test_events_have_no_point_twice_and_lack_none(
    training: Training, tmp_path: Path, end: Any
) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    assert run(*command, before=end).code in (-signal.SIGKILL, 130)
    assert run(*command).code == 0
    assert_events_are_the_records(tmp_path / "run")


def test_a_run_from_before_gets_its_events(training: Training, own_run: Path) -> None:
    shutil.rmtree(own_run / "tensorboard")
    longer = ("--set", "training.epochs=13")
    assert run("train", training.config, "--run-dir", own_run, *longer).code == 0
    assert_events_are_the_records(own_run)


def test_overwriting_starts_other_events(training: Training, own_run: Path) -> None:
    shorter = ("--set", "training.max_steps=5", "--overwrite")
    assert run("train", training.config, "--run-dir", own_run, *shorter).code == 0
    assert_events_are_the_records(own_run)


@pytest.mark.posix
def test_links_are_refused(training: Training, own_run: Path) -> None:
    name = "tensorboard"
    elsewhere = own_run.parent / "elsewhere"
    (own_run / name).rename(elsewhere)
    (own_run / name).symlink_to(elsewhere)
    refused = run("train", training.config, "--run-dir", own_run)
    assert_refused(refused, 1, f"{own_run / name}: is a link")


@pytest.mark.posix
def test_a_link_among_the_events_is_not_followed(training: Training, own_run: Path) -> None:
    elsewhere = own_run.parent / "elsewhere"
    elsewhere.write_text("precious")
    (own_run / "tensorboard" / "events.out.tfevents.0000000001").symlink_to(elsewhere)
    refused = run("train", training.config, "--run-dir", own_run)
    assert_refused(refused, 1, "events.out.tfevents.0000000001: is a link")
    assert elsewhere.read_text() == "precious"


# --- summary and dry run --------------------------------------------------------------------------


def rows(text: str) -> dict[str, str]:
    """The summary's rows by their labels."""
    lines = [line.partition("  ") for line in text.splitlines()]
    return {label: words.strip() for label, _, words in lines if label}


SUMMARY = {
    "text": "200 pairs to train on (left out: 0 with a blank side, 0 over 256 tokens)",
    "an epoch": "1,000 source and 1,000 target tokens",
    "vocabularies": "10 (source) and 10 (target)",
    # With d = 16 and f = 32: an attention 4 (d d + d), a feed-forward layer 2 d f + d + f, a norm
    # 2 d; one embedding of 10 d for all, and a bias for each of 10 logits.
    "parameters": "5,962",
    "steps": "60, 5 an epoch",
    "a step": "1 batch of at most 200 tokens a side",
    "device": "cpu in float32, 1 thread",
    "run": "runs/tiny",
}


def test_training_begins_with_a_summary(training: Training) -> None:
    before, _, _ = training.finished.err.partition("step 20/60")
    # Such a short training is not worth a forecast.
    assert rows(before) == SUMMARY


def put_temporary_files(place: Path) -> None:
    os.environ["TMPDIR"] = str(place)


def test_a_dry_run_describes_the_training_and_leaves_nothing(training: Training) -> None:
    here = training.config.parent
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    temporary = here.parent / f"{here.name}-temporary"
    temporary.mkdir()
    dry = run(
        "train",
        training.config,
        "--dry-run",
        *("--run-dir", "runs/new", "--set", "training.max_steps=1000"),
        cwd=here,
        before=partial(put_temporary_files, temporary),
    )
    assert (dry.code, dry.err) == (0, "")
    found = rows(dry.out)
    assert found.pop("forecast").endswith(" of memory")
    steps = f"{SUMMARY['steps']}; training.epochs 12 ends training before training.max_steps 1,000"
    assert found == {**SUMMARY, "run": "runs/new", "steps": steps}
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
    assert not (here / "runs" / "new").exists()
    assert not list(temporary.iterdir())


def assert_untouched(own_run: Path, *arguments: str | Path) -> dict[str, str]:
    before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    dry = run("train", *arguments, "--run-dir", own_run, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()} == before
    return rows(dry.out)


def no_preparing() -> None:
    from transformer_cli.text import tokenizer
    from transformer_cli.training import preparation

    del tokenizer.learn_tokenizers
    delattr(preparation, "write_store")


def test_a_dry_run_uses_existing_files(training: Training, own_run: Path) -> None:
    command = ("train", training.config, "--run-dir", own_run, "--dry-run", *LONG)
    dry = run(*command, before=no_preparing)
    assert (dry.code, dry.err) == (0, "")
    assert rows(dry.out)["steps"] == "120, 5 an epoch; 60 are done"


def test_a_dry_run_of_a_finished_training_has_nothing_to_forecast(
    training: Training, own_run: Path
) -> None:
    assert "forecast" not in assert_untouched(own_run, training.config)


def test_a_dry_run_that_would_overwrite_keeps_all(training: Training, own_run: Path) -> None:
    changes = ("--overwrite", "--set", "tokenizer.min_freq=2", "--set", "model.d_ff=16")
    found = assert_untouched(own_run, training.config, *changes)
    assert found["steps"] == "60, 5 an epoch"
    assert found["parameters"] == "4,906"


def test_a_dry_run_is_refused_as_the_training_would_be(training: Training, own_run: Path) -> None:
    changed = ("--set", "model.d_ff=64", "--dry-run")
    refused = run("train", training.config, "--run-dir", own_run, *changed)
    assert_refused(refused, 2, "model.d_ff was 32, now 64")


@pytest.mark.long  # training/test_forecast.py says it of a trainer
@pytest.mark.parametrize("more", ["accumulate=2", "ema_decay=0.9", "rdrop_alpha=2"])
def test_trying_steps_changes_no_weight(config: Path, more: str) -> None:
    settings = (*LONG, "--set", f"training.{more}", "--set", "model.dropout=0.3")
    for name in ("tried", "untried"):
        finished = run(
            "train",
            config,
            *settings,
            *("--run-dir", config.parent / name),
            before=no_forecast if name == "untried" else None,
        )
        assert finished.code == 0, finished.err
        assert ("\nforecast " in finished.err) == (name == "tried")
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = max((config.parent / "tried" / "checkpoints").iterdir()).name
        tried, untried = (
            (config.parent / each / "checkpoints" / last / name).read_bytes()
            for each in ("tried", "untried")
        )
        assert tried == untried


def no_forecast() -> None:
    from transformer_cli.extensions.observers import forecast

    vars(forecast)["forecast"] = lambda *_: None


def test_ranks_try_steps_by_themselves(config: Path) -> None:
    settings = (*LONG, "--set", "training.batch_tokens=70")
    dry = run_ranks(2, "train", config, *settings, "--dry-run", cwd=config.parent)
    assert [each.code for each in dry] == [0, 0], dry
    assert "forecast" in rows(dry[0].out)
    assert rows(dry[0].out)["device"] == "cpu in float32, 1 thread; 2 processes"
    assert (dry[1].out, dry[1].err) == ("", "")
    assert {path.name for path in config.parent.iterdir()} == {config.name}


# --- models that cannot be held -------------------------------------------------------------------


def leave_room(size: int) -> None:
    """Limit the process to this many additional bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    import resource

    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.long_cases
@pytest.mark.parametrize("more", [["--dry-run"], []])
@pytest.mark.parametrize(
    "sizes",
    [
        ["d_model=1048576", "d_ff=1048576"],
        # Many small layers: the first ones would fit.
        ["d_model=4096", "num_encoder_layers=100", "num_decoder_layers=100"],
    ],
)
def test_a_model_that_memory_cannot_hold_is_refused_before_any_is_taken(
    config: Path, sizes: list[str], more: list[str]
) -> None:
    settings = [f"--set=model.{each}" for each in sizes]
    run_dir = config.parent / "run"
    command: list[str | Path] = ["train", config, "--run-dir", run_dir, *settings, *more]
    refused = run(*command, before=partial(leave_room, 300_000_000))
    assert_refused(refused, 2, "model: its ", " weights take at least ", " GB of memory; lower ")
    assert not run_dir.exists()


def no_room_for_a_trial() -> None:
    from transformer_cli.extensions.observers import forecast

    vars(forecast)["trial_fits"] = lambda trainer, config: False


def test_a_trial_that_does_not_fit_is_left_out_with_a_note(training: Training) -> None:
    command = ("train", training.config, "--dry-run")
    dry = run(*command, cwd=training.config.parent / "..", before=no_room_for_a_trial)
    assert (dry.code, dry.err) == (0, "")
    assert rows(dry.out)["forecast"].startswith("none: ")

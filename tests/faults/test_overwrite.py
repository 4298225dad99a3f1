"""What `--overwrite` may delete, and what becomes of a run whose replacement comes to nothing."""

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import TINY, Training
from cli.process import assert_refused, run, run_ranks, signal_at
from cli.same import assert_same_run
from cli.test_train import contents

pytestmark = pytest.mark.posix

BACK = "the new run ended before its first checkpoint; the earlier one is back\n"
OTHER = ("--set", "seed=5", "--overwrite")
TRAINER = "transformer_cli.training.trainer:Trainer"
TEXT = b"s1 s2 s3 s4\ns2 s2 s1 s1\n"


# --- files of the user's --------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "vocab"])
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=" ".join)
def test_a_configuration_of_ones_own_is_not_written_over(
    tmp_path: Path, command: str, overwrite: list[str]
) -> None:
    config = tmp_path / "exp1" / "config.yaml"
    config.parent.mkdir()
    config.write_text(TINY)
    refused = run(command, "exp1/config.yaml", "--run-dir", "exp1", *overwrite, cwd=tmp_path)
    assert_refused(refused, 1, "exp1: holds files but no run (config.yaml, and no run.json of")
    assert contents(config.parent) == {"config.yaml": TINY.encode()}


@pytest.mark.parametrize("command", ["train", "vocab"])
def test_foreign_parts_are_not_discarded(config: Path, tmp_path: Path, command: str) -> None:
    directory = tmp_path / "mine"
    for name in ("config.yaml", "checkpoints/a.pt", "tokenizer/words.txt", "metrics.jsonl"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("mine")
    before = contents(directory)
    refused = run(command, config, "--run-dir", directory, "--overwrite")
    assert_refused(refused, 1, f"{directory}: holds files but no run (checkpoints, and no run.json")
    assert contents(directory) == before


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=" ".join)
def test_foreign_files_in_a_run_are_refused_before_all(
    training: Training, own_run: Path, more: list[str]
) -> None:
    notes = own_run / "checkpoints" / "notes.txt"
    notes.write_text("mine")
    before = contents(own_run)
    refused = run("train", training.config, "--run-dir", own_run, *OTHER, *more)
    assert_refused(refused, 1, f"{notes}: was not written by transformer-cli", "move it elsewhere")
    assert contents(own_run) == before


def test_a_base_is_not_written_over(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "longer.yaml").write_text("base: run/config.yaml\ntraining: {epochs: 13}\n")
    refused = run("train", "longer.yaml", "--run-dir", "run", cwd=tmp_path)
    assert_refused(refused, 2, "run/config.yaml: settings are read from it", "--run-dir")
    assert run("train", "longer.yaml", "--run-dir", "longer", cwd=tmp_path).code == 0


def test_a_runs_own_settings_that_were_edited_are_not_written_over(own_run: Path) -> None:
    config = own_run / "config.yaml"
    again = ("train", config, "--run-dir", own_run, "--set", "training.epochs=13")
    assert run(*again).code == 0
    config.write_text(f"# my remark\n{config.read_text()}")
    refused = run(*again)
    assert_refused(refused, 2, f"{config}: has been edited", "copy it elsewhere")
    assert config.read_text().startswith("# my remark\n")


# --- replacements that come to nothing ------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "tokenizer={kind: sentencepiece, vocab_size: 999}"], "vocab_size"),
        (["--set", "training.max_length=2"], "training.max_length"),
        (["--set", "training.schedule.peak=1e38", "--set", "training.clip_norm=null"], "step "),
    ],
    ids=["tokenizer", "text", "loss"],
)
def test_a_new_run_that_is_impossible_leaves_the_old_one(
    training: Training, own_run: Path, options: list[str], said: str
) -> None:
    before = contents(own_run)
    failed = run("train", training.config, "--run-dir", own_run, "--overwrite", *options)
    assert failed.code == 1
    last_but_one, last = failed.err.splitlines(keepends=True)[-2:]
    assert last_but_one == f"{own_run}: {BACK}"
    assert said in last
    assert contents(own_run) == before


def test_vocab_leaves_the_old_run_if_it_fails_and_discards_it_if_not(
    training: Training, own_run: Path
) -> None:
    before = contents(own_run)
    again = ("vocab", training.config, "--run-dir", own_run, "--overwrite")
    failed = run(*again, "--set", "tokenizer={kind: sentencepiece, vocab_size: 999}")
    assert failed.code == 1
    assert BACK in failed.err
    assert contents(own_run) == before
    assert run(*again).code == 0
    names = {path.name for path in own_run.iterdir()}
    made = {"config.yaml", "origins.json", "tokenizer", "encoded", "checkpoints"}
    assert names == {".lock", "run.json", *made}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_step_leaves_the_old_run(
    training: Training, own_run: Path, number: int, code: int
) -> None:
    before = contents(own_run)
    ask = partial(signal_at, "transformer_cli.training.preparation", "encode_text", 1, number)
    stopped = run("train", training.config, "--run-dir", own_run, *OTHER, before=ask)
    assert (stopped.code, stopped.err.strip()) == (code, f"{own_run}: {BACK}".strip())
    assert contents(own_run) == before


KILLS = {
    "while it is set aside": ("pathlib:Path", "rename", 4),
    "before the settings": ("transformer_cli.runs.initialize", "write_text", 1),
    "while the tokenizer is made": (
        "transformer_cli.training.preparation",
        "learn_tokenizers",
        1,
    ),
    "in a step": (TRAINER, "_update", 5),
    "in the first checkpoint": ("transformer_cli.runs.checkpoint_writer", "save_file", 2),
}


@pytest.mark.parametrize("when", KILLS)
def test_killed_before_its_first_checkpoint_it_leaves_the_old_run(
    training: Training, own_run: Path, when: str
) -> None:
    before = contents(own_run)
    kill = partial(signal_at, *KILLS[when])
    command = ("train", training.config, "--run-dir", own_run)
    assert run(*command, *OTHER, before=kill).code == -signal.SIGKILL
    expected = run("translate", training.run, stdin=TEXT)
    found = run("translate", own_run, stdin=TEXT)
    assert (found.code, found.out) == (0, expected.out)
    assert found.err == f"{own_run}: {BACK}"
    assert run("translate", own_run, stdin=TEXT) == expected
    again = run(*command)
    assert (again.code, "nothing left to train" in again.err) == (0, True)
    assert contents(own_run) == before


def test_killed_after_its_first_checkpoint_it_stands(training: Training, own_run: Path) -> None:
    kill = partial(signal_at, "transformer_cli.training.session", "discard_previous", 1)
    command = ("train", training.config, "--run-dir", own_run, "--set", "seed=5")
    assert run(*command, "--overwrite", before=kill).code == -signal.SIGKILL
    assert (own_run / "previous").is_dir()
    assert run("translate", own_run, stdin=TEXT).err == ""
    again = run(*command)
    assert "resuming from step 10\n" in again.err
    assert not (own_run / "previous").exists()


def test_a_run_started_anew_from_its_own_settings(training: Training, own_run: Path) -> None:
    """Those of the earlier run count, not those of the new one that was killed."""
    own = ("train", own_run / "config.yaml", "--run-dir", own_run, "--overwrite")
    kill = partial(signal_at, TRAINER, "_update", 5)
    assert run(*own, "--set", "seed=5", before=kill).code == -signal.SIGKILL
    assert "seed: 5" in (own_run / "config.yaml").read_text()
    finished = run(*own)
    assert finished.code == 0, finished.err
    assert finished.err.startswith(f"{own_run}: {BACK}")
    assert_same_run(own_run, training.run)


def kill_the_second(rank: int) -> None:
    if rank == 1:
        signal_at(TRAINER, "_update", 5)


def start_again(rank: int) -> None:
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"


def test_started_again_by_torchrun_it_still_replaces_the_old_run(
    training: Training, own_run: Path
) -> None:
    """As the same command would: the old run is not gone on with, though its settings fit."""
    command = ("train", training.config, "--run-dir", own_run, "--overwrite")

    steps = ("--set", "training.max_steps=20")
    killed = run_ranks(2, *command, *steps, before=kill_the_second)
    assert [each.code for each in killed] == [1, -signal.SIGKILL]
    finished = run_ranks(2, *command, *steps, before=start_again)
    assert [each.code for each in finished] == [0, 0], finished[0].err
    assert "going on" not in finished[0].err
    assert [path.name for path in sorted((own_run / "checkpoints").iterdir())] == [
        "step-00000010",
        "step-00000020",
    ]
    assert not (own_run / "previous").exists()


def test_a_reader_that_may_not_write_says_where_the_run_is(
    training: Training, own_run: Path
) -> None:
    kill = partial(signal_at, TRAINER, "_update", 5)
    command = ("train", training.config, "--run-dir", own_run, *OTHER)
    assert run(*command, before=kill).code == -signal.SIGKILL
    (own_run / ".lock").unlink()
    (own_run / ".lock").mkdir()
    refused = run("translate", own_run, stdin=TEXT)
    assert_refused(refused, 1, f"in {own_run / 'previous'}, cannot be put back: ")
    shutil.rmtree(own_run / ".lock")
    assert run("translate", own_run / "previous", stdin=TEXT).code == 0

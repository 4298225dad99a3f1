"""What `--overwrite` may not write over, and what becomes of the run that was there."""

import signal
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import TINY, Training
from cli.process import assert_refused, run, signal_at
from cli.same import assert_same_run
from cli.test_train import contents

pytestmark = pytest.mark.posix

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
    assert_refused(refused, 1, "exp1: holds files but no run (it has config.yaml, but no run.json")
    assert contents(config.parent) == {"config.yaml": TINY.encode()}


@pytest.mark.parametrize("command", ["train", "vocab"])
def test_foreign_parts_are_not_discarded(config: Path, tmp_path: Path, command: str) -> None:
    directory = tmp_path / "mine"
    for name in ("config.yaml", "checkpoints/a.pt", "tokenizer/words.txt", "metrics.jsonl"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("mine")
    before = contents(directory)
    refused = run(command, config, "--run-dir", directory, "--overwrite")
    assert_refused(refused, 1, f"{directory}: holds files but no run (it has checkpoints, but no")
    assert contents(directory) == before


def test_a_base_is_not_written_over(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "longer.yaml").write_text("base: run/config.yaml\ntraining: {epochs: 13}\n")
    refused = run("train", "longer.yaml", "--run-dir", "run", cwd=tmp_path)
    assert_refused(refused, 2, "run/config.yaml: the settings are read from", "--run-dir")
    assert run("vocab", "longer.yaml", "--run-dir", "longer", cwd=tmp_path).code == 0


# --- the earlier run ------------------------------------------------------------------------------


def renamed(run: Path) -> Path:
    """The one place where an earlier run is now."""
    (path,) = run.parent.glob(f"{run.name}.2*")
    return path


def test_dry_it_renames_nothing(training: Training, own_run: Path) -> None:
    before = contents(own_run)
    assert run("train", training.config, "--run-dir", own_run, *OTHER, "--dry-run").code == 0
    assert contents(own_run) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "tokenizer={kind: sentencepiece, vocab_size: 999}"], "vocab_size"),
        pytest.param(
            ["--set", "training.max_length=2"], "training.max_length", marks=pytest.mark.long
        ),
        (["--set", "training.schedule.peak=1e38", "--set", "training.clip_norm=null"], "step "),
    ],
    ids=["tokenizer", "text", "loss"],
)
def test_a_new_run_that_is_impossible_leaves_the_earlier_one_and_is_in_nobodys_way(
    training: Training, own_run: Path, options: list[str], said: str
) -> None:
    notes = own_run / "checkpoints" / "notes.txt"
    notes.write_text("mine")
    before = contents(own_run)
    command = ("train", training.config, "--run-dir", own_run)
    failed = run(*command, "--overwrite", *options)
    assert failed.code == (2 if said == "vocab_size" else 1), failed.err
    assert f"{own_run}: the earlier run is now {renamed(own_run)}\n" in failed.err
    assert said in failed.err.splitlines()[-1]
    assert contents(renamed(own_run)) == before
    finished = run(*command)
    assert finished.code == 0, finished.err
    assert_same_run(own_run, training.run)


def test_vocab_renames_the_earlier_run(training: Training, own_run: Path) -> None:
    before = contents(own_run)
    again = ("vocab", training.config, "--run-dir", own_run, "--overwrite")
    failed = run(*again, "--set", "tokenizer={kind: sentencepiece, vocab_size: 999}")
    assert failed.code == 2
    assert contents(renamed(own_run)) == before
    for _ in range(2):
        assert run(*again).code == 0
        names = {path.name for path in own_run.iterdir()}
        made = {"config.yaml", "tokenizer", "encoded", "checkpoints"}
        assert names == {".lock", "run.json", *made}
    assert contents(renamed(own_run)) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_step_leaves_the_earlier_run(
    training: Training, own_run: Path, number: int, code: int
) -> None:
    before = contents(own_run)
    ask = partial(signal_at, "transformer_cli.training.preparation", "encode_pairs", 1, number)
    stopped = run("train", training.config, "--run-dir", own_run, *OTHER, before=ask)
    assert stopped.code == code
    assert contents(renamed(own_run)) == before


KILLS = {
    "before the settings": ("transformer_cli.runs.initialize", "write_text", 1),
    "while the tokenizer is made": (
        "transformer_cli.text.tokenizer",
        "learn_tokenizers",
        1,
    ),
    "in a step": (TRAINER, "_update", 5),
    "in the first checkpoint": ("safetensors.torch", "save_file", 2),
}


@pytest.mark.parametrize(
    "when",
    [
        "before the settings",
        *(pytest.param(each, marks=pytest.mark.long) for each in ["in a step", *[*KILLS][1::2]]),
    ],
)
def test_killed_it_leaves_the_earlier_run_and_is_in_nobodys_way(
    training: Training, own_run: Path, when: str
) -> None:
    before = contents(own_run)
    kill = partial(signal_at, *KILLS[when])
    command = ("train", training.config, "--run-dir", own_run)
    assert run(*command, *OTHER, before=kill).code == -signal.SIGKILL
    assert contents(renamed(own_run)) == before
    assert run("translate", renamed(own_run), stdin=TEXT) == run(
        "translate", training.run, stdin=TEXT
    )
    again = run(*command, *(OTHER[-1:] if when == "in a step" else ()))
    assert again.code == 0, again.err
    assert_same_run(own_run, training.run)


def test_a_run_started_anew_from_its_own_settings(training: Training, own_run: Path) -> None:
    own = ("train", own_run / "config.yaml", "--run-dir", own_run, "--overwrite")
    finished = run(*own)
    assert finished.code == 0, finished.err
    assert_same_run(own_run, training.run)

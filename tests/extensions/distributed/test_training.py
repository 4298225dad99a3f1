"""Several processes train and validate as one does."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import children
import pytest
import torch
from cli.conftest import Training
from cli.process import PATIENCE, Finished, run, run_ranks, signal_at
from cli.same import assert_same_run, timeless
from cli.test_train import contents
from faults.test_overwrite import renamed
from faults.test_pairs_once import check_pairs
from safetensors.torch import load_file

pytestmark = pytest.mark.posix


def settings(**training: Any) -> list[str]:
    return [f"--set=training.{key}={value}" for key, value in training.items()]


def records(run_dir: Path) -> list[dict[str, Any]]:
    """Those that measure something, without times."""
    found = map(timeless, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [record for record in found if record["kind"] != "session"]


def last(run_dir: Path) -> Path:
    return max((run_dir / "checkpoints").glob("step-*"))


def assert_close(found: Path, expected: Path, within: float) -> None:
    """The last checkpoints' tensors differ relatively by so little, each as a whole."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        tensors, others = (load_file(last(each) / name) for each in (found, expected))
        assert tensors.keys() == others.keys()
        for key, tensor in tensors.items():
            if "attention.key.bias" in key:
                # It has no effect and no gradient: rounding errors, which Adam makes steps of.
                continue
            difference = torch.linalg.vector_norm(tensor - others[key])
            assert difference <= within * torch.linalg.vector_norm(others[key]), key


def assert_same_bytes(found: Path, expected: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (last(found) / name).read_bytes() == (last(expected) / name).read_bytes()


def assert_all(finished: list[Finished], code: int) -> None:
    assert [each.code for each in finished] == [code] * len(finished), finished


def test_two_processes_make_the_weights_of_one_with_twice_the_batches(
    training: Training, tmp_path: Path
) -> None:
    small = {"batch_tokens": 70, "max_steps": 20}
    alone, both = tmp_path / "alone", tmp_path / "both"
    one = run("train", training.config, "--run-dir", alone, *settings(accumulate=2, **small))
    assert one.code == 0, one.err
    two = run_ranks(2, "train", training.config, "--run-dir", both, *settings(**small))
    assert_all(two, 0)
    # Dropout included: a + b is b + a.
    assert_same_bytes(both, alone)
    for record, expected in zip(records(both), records(alone), strict=True):
        for key in ("kind", "samples", "tokenize", "select"):  # not numbers
            assert record.pop(key, None) == expected.pop(key, None)
        assert record == pytest.approx(expected, rel=1e-6)
    # One of them speaks, and says what one process would.
    assert two[0].out.partition(" in ")[0].replace("both", "alone") == one.out.partition(" in ")[0]
    assert "; 2 processes\n" in two[0].err
    assert (two[1].out, two[1].err) == ("", "")


@pytest.mark.long
def test_ranks_that_accumulate_differ_by_rounding_only(training: Training, tmp_path: Path) -> None:
    small = {"batch_tokens": 70, "max_steps": 20}
    alone, both = tmp_path / "alone", tmp_path / "both"
    one = run("train", training.config, "--run-dir", alone, *settings(accumulate=4, **small))
    assert one.code == 0, one.err
    accumulating = settings(accumulate=2, **small)
    assert_all(run_ranks(2, "train", training.config, "--run-dir", both, *accumulating), 0)
    assert_close(both, alone, within=2e-5)


# 200 pairs of 70 tokens make 15 batches: at step 8 of 2 ranks one of them has none.
SMALL = settings(batch_tokens=70, max_steps=40, save_every=8)


def small_training(training: Training, run_dir: Path) -> list[str | Path]:
    return ["train", training.config, "--run-dir", run_dir, *SMALL]


def signal_rank(which: int, method: str, call: int, number: int, rank: int) -> None:
    """Have the process of rank ``which`` send itself a signal before a method's n-th call."""
    if rank == which:
        owner, _, name = method.partition(".")
        signal_at(f"transformer_cli.training.{owner}", name, call, number)


EITHER_RANK = [pytest.param(0, marks=pytest.mark.long), 1]


@pytest.fixture(scope="module")
def pair(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on two ranks that was left alone."""
    run_dir = tmp_path_factory.mktemp("pair") / "run"
    assert_all(run_ranks(2, *small_training(training, run_dir)), 0)
    return run_dir


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
@pytest.mark.long
@pytest.mark.parametrize("rank", EITHER_RANK)
def test_a_signal_to_one_rank_stops_all_with_a_checkpoint(
    training: Training, tmp_path: Path, pair: Path, rank: int, number: int
) -> None:
    # Asked during step 18, so that step 19 is the last, which is not due for a checkpoint.
    ask = partial(signal_rank, rank, "trainer:Trainer._update", 18, number)
    command = small_training(training, tmp_path / "run")
    stopped = run_ranks(2, *command, before=ask)
    assert stopped[rank].code == 128 + number
    assert stopped[1 - rank].code in (128 + number, 143)
    assert stopped[0].err.endswith("stopped at step 19; the same command resumes from there\n")
    assert last(tmp_path / "run").name == "step-00000019"
    assert_all(run_ranks(2, *command), 0)
    assert_same_run(tmp_path / "run", pair, other_checkpoints=True)


@pytest.mark.parametrize("rank", EITHER_RANK)
def test_a_killed_rank_ends_the_others_and_nothing_is_lost(
    training: Training, tmp_path: Path, pair: Path, rank: int
) -> None:
    kill = partial(signal_rank, rank, "optimizer:Optimizer.step", 22, signal.SIGKILL)
    command = small_training(training, tmp_path / "run")
    finished = run_ranks(2, *command, before=kill)
    assert finished[rank].code == -signal.SIGKILL
    survivor = finished[1 - rank]
    assert survivor.code == 1
    assert survivor.err.splitlines()[-1].startswith(
        "transformer-cli: error: another process of this job has ended"
    )
    assert "Traceback" not in survivor.err
    assert last(tmp_path / "run").name == "step-00000020"
    assert_all(run_ranks(2, *command), 0)
    assert_same_run(tmp_path / "run", pair, other_checkpoints=True)


@pytest.mark.long
def test_one_process_goes_on_where_two_were_stopped(
    training: Training, tmp_path: Path, pair: Path
) -> None:
    command = small_training(training, tmp_path / "run")
    assert_all(run_ranks(2, *command, *settings(max_steps=20)), 0)
    alone = run(*command)
    assert alone.code == 2
    assert "set training.accumulate=2" in alone.err
    assert run(*command, *settings(accumulate=2)).code == 0
    assert_same_bytes(tmp_path / "run", pair)


def spoil_a_loss(rank: int) -> None:
    """Have rank 1's loss of step 13 be infinite, and its gradients sound."""
    from transformer_cli.training.loss import GradientAccumulator, Losses

    accumulate = GradientAccumulator.accumulate

    def spoilt(gradients: GradientAccumulator, step: int, *arguments: Any) -> Losses:
        losses = accumulate(gradients, step, *arguments)
        return Losses(losses.loss + torch.inf, losses.nll_loss) if step == 13 else losses

    if rank == 1:
        GradientAccumulator.accumulate = spoilt  # type: ignore[method-assign, assignment]


@pytest.mark.long
def test_a_loss_that_is_no_number_on_one_rank_stops_all(training: Training, tmp_path: Path) -> None:
    command = small_training(training, tmp_path / "run")
    finished = run_ranks(2, *command, before=spoil_a_loss)
    assert_all(finished, 1)
    # 8 steps an epoch, of two batches but for the last
    said = "error: step 13 (epoch 2, batches 9 to 10): the loss is inf and the gradient norm is "
    assert said in finished[0].err
    assert finished[1].err == ""
    assert last(tmp_path / "run").name == "step-00000008"
    skipping = run_ranks(2, *command, *settings(skip_nonfinite=1), before=spoil_a_loss)
    assert_all(skipping, 0)
    assert "step 13: skipped, because its loss or gradient is not finite\n" in skipping[0].err


def test_a_mistake_is_told_once(training: Training, tmp_path: Path) -> None:
    finished = run_ranks(2, "train", training.config, "--set", "training.epoch=3", cwd=tmp_path)
    assert_all(finished, 2)
    assert "did you mean" in finished[0].err
    assert finished[1].err == ""


@pytest.mark.parametrize("command", ["vocab", "evaluate", "translate", "compare"])
def test_what_ranks_would_all_do_alike_is_refused(tmp_path: Path, command: str) -> None:
    finished = run_ranks(2, command, "runs/x", cwd=tmp_path)
    assert_all(finished, 2)
    assert f"error: {command}: uses only one process; start it without torchrun" in finished[0].err
    assert finished[1].err == ""


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]


def torchrun(*arguments: str | Path, cwd: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [*TORCHRUN, *map(str, arguments)]
    if "train" in arguments and "--precision" not in arguments:
        command += ["--precision", "float32"]
    return children.start(command, cwd=cwd, env=environment, stderr=subprocess.PIPE)


def ranks_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of what torchrun has started, by rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ranks = {}
    for child in map(int, children):
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        (rank,) = (int(each[5:]) for each in environment if each.startswith(b"RANK="))
        ranks[rank] = child
    return [ranks[rank] for rank in sorted(ranks)]


def wait_for(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Read torchrun's stderr up to the line with ``words``."""
    assert process.stderr is not None
    read = b""
    timer = Timer(PATIENCE, children.end_all)  # ranks outlive a torchrun that is killed
    timer.start()
    try:
        while words not in (line := process.stderr.readline()):
            read += line
            assert line, read.decode()
    finally:
        timer.cancel()


@pytest.mark.long
def test_torchrun_starts_a_training_again_after_a_rank_is_killed(
    training: Training, tmp_path: Path, pair: Path
) -> None:
    command = ["-m", "transformer_cli", *small_training(training, tmp_path / "run"), "--overwrite"]
    process = torchrun("--max-restarts=1", *command, cwd=tmp_path)
    wait_for(process, b"validation loss")
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    # Not from the start, although it was told to overwrite.
    wait_for(process, b"resuming from step ")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert_same_run(tmp_path / "run", pair, other_checkpoints=True)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_torchrun_stops_a_training_with_a_checkpoint(
    training: Training, tmp_path: Path, number: int
) -> None:
    endless = [
        *small_training(training, tmp_path / "run"),
        *settings(max_steps=10**6, epochs=10**6),
    ]
    process = torchrun("-m", "transformer_cli", *endless, cwd=tmp_path)
    wait_for(process, b"validation loss")
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    said = re.search(rb"stopped at step (\d+); the same command resumes from there", err)
    assert said, err.decode()
    assert last(tmp_path / "run").name == f"step-{int(said[1]):08d}"


def interrupt_a_validation(which: int, rank: int) -> None:
    """Have a rank be asked to stop in its second validation, whose end is not worth waiting for."""
    from transformer_cli.inference import search as module

    if rank == which:
        signal_at("transformer_cli.inference.search", "search", 2, signal.SIGTERM)
    search = vars(module)["search"]
    searches = iter(range(1, 100))

    def slow(*arguments: Any) -> Any:
        assert next(searches) <= 2, "translated on"
        return search(*arguments)

    vars(module)["search"] = slow


@pytest.mark.long
@pytest.mark.parametrize("rank", EITHER_RANK)
def test_a_signal_in_a_validation_does_not_wait_for_its_end(
    training: Training, tmp_path: Path, pair: Path, rank: int
) -> None:
    command = small_training(training, tmp_path / "run")
    finished = run_ranks(2, *command, before=partial(interrupt_a_validation, rank))
    assert_all(finished, 143)
    assert last(tmp_path / "run").name == "step-00000040"
    kinds = [record["kind"] for record in records(tmp_path / "run")]
    assert kinds.count("validation") == 1
    assert_all(run_ranks(2, *command), 0)
    assert_same_run(tmp_path / "run", pair, other_checkpoints=True)


def kill_the_second(rank: int) -> None:
    if rank == 1:
        signal_at("transformer_cli.training.trainer:Trainer", "_update", 5)


def start_again(rank: int) -> None:
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"


@pytest.mark.long
def test_started_again_by_torchrun_it_goes_on_with_the_new_run(
    training: Training, own_run: Path
) -> None:
    before = contents(own_run)
    command = ("train", training.config, "--run-dir", own_run, "--overwrite")

    steps = ("--set", "training.max_steps=20")
    killed = run_ranks(2, *command, *steps, before=kill_the_second)
    assert [each.code for each in killed] == [1, -signal.SIGKILL]
    finished = run_ranks(2, *command, *steps, before=start_again)
    assert [each.code for each in finished] == [0, 0], finished[0].err
    assert "resuming" not in finished[0].err
    assert [path.name for path in sorted((own_run / "checkpoints").iterdir())] == [
        "step-00000010",
        "step-00000020",
    ]
    assert contents(renamed(own_run)) == before


@pytest.mark.parametrize(
    "where",
    [
        "mid-epoch",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("mid-accumulation", "epoch's end", "the end")
        ),
    ],
)
def test_two_processes_see_each_pair_once_an_epoch(
    training: Training, tmp_path: Path, where: str
) -> None:
    check_pairs(training, tmp_path, 2, where)

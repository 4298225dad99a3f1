"""``distill``: stages with real commands, each killed and resumed."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import children
import pytest
from cli import process
from cli.conftest import TINY

from extensions.experiments.forked_commands import do_not_wait, fork_commands
from transformer_cli.config.data_schema import FilesData
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.corpora.settings import find_more
from transformer_cli.extensions.experiments import child
from transformer_cli.extensions.experiments.distill import DistillDirectory
from transformer_cli.extensions.experiments.job import Job
from transformer_cli.extensions.experiments.runner import Runner
from transformer_cli.runs.directory import lock_directory

FILE = """\
teachers: [teacher.yaml]
forward: {beam_size: 2, n_best: 2, keep: nearest}
student: student.yaml
"""
LONGER = """\
back: {teachers: [teacher.yaml], monolingual: [mono.txt], sample: true}
keep_reference: false
"""
MODELS = {"teacher": 4, "student": 2}

Hook = Callable[[], None]


def _write(directory: Path, file: str = FILE) -> None:
    for name, epochs in MODELS.items():
        text = TINY.replace("epochs: 12", f"epochs: {epochs}")
        (directory / f"{name}.yaml").write_text(text)
    (directory / "file.yaml").write_text(file)
    (directory / "mono.txt").write_text("1 2\n2 1 3\n")


def _distill(directory: Path, *options: str, before: Hook = fork_commands) -> process.Finished:
    command = ("distill", "file.yaml", "--precision", "float32", *options)
    return process.run(*command, cwd=directory, before=before)


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an undisturbed distillation; tests must not change it."""
    directory = tmp_path_factory.mktemp("distilled")
    _write(directory)
    finished = _distill(directory)
    assert finished.code == 0, finished.err
    lines = [line.split() for line in finished.out.splitlines()]
    assert lines[0] == ["val:", "20", "sentences"]
    assert [line[0] for line in lines[3:]] == ["runs/teacher", "runs/distill/file/student"]
    return directory


def _sums(directory: Path) -> dict[str, str]:
    """Texts, translations and the last weights, which must be identical bit by bit."""
    out = directory / "runs" / "distill" / "file"
    paths = [path for part in ("text", "forward", "back") for path in (out / part).glob("*")]
    for run in (directory / "runs" / "teacher", out / "student"):
        last = sorted((run / "checkpoints").glob("step-*"))[-1]
        paths += [last / "model.safetensors", last / "optimizer.safetensors"]
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def test_the_student_is_trained_on_what_was_kept(distilled: Path) -> None:
    out = distilled / "runs" / "distill" / "file"
    lists = [json.loads(line) for line in (out / "forward/train.nbest.jsonl").open()]
    kept = (out / "forward/train.tgt").read_text().splitlines()
    assert len(kept) == len(lists) == 200
    for line, each in zip(kept, lists, strict=True):
        assert line in [translation["text"] for translation in each["translations"]]
    trained_on = load_config(out / "student.yaml").data
    assert isinstance(trained_on, FilesData)
    (forward,) = find_more(trained_on)
    assert forward.src is not None
    assert forward.tgt is not None
    pairs = [(trained_on.train.src, trained_on.train.tgt), (forward.src, forward.tgt)]
    assert [(src.name, tgt.name) for src, tgt in pairs] == [("train.src", "train.tgt")] * 2
    assert forward.tgt.parent.name == "forward"


def test_run_again_it_says_the_same_and_does_nothing(distilled: Path) -> None:
    before = _sums(distilled)
    again = _distill(distilled)
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("val: 20 sentences")
    assert _sums(distilled) == before
    dry = _distill(distilled, "--dry-run")
    assert dry.out.count(" done\n") == 7
    assert dry.out.endswith("\n0 of 7 stages left\n")


KILLS: dict[str, tuple[str, Hook]] = {
    "train runs/teacher": (
        "train teacher.yaml",
        partial(process.signal_at, "transformer_cli.training.trainer:Trainer", "_update", 13),
    ),
    "translate forward train": (
        "translate",
        partial(
            process.signal_at,
            "transformer_cli.inference.output:_ResumableOutput",
            "_write_journal",
            3,
        ),
    ),
    "train student": (
        "train runs",
        partial(process.signal_at, "transformer_cli.training.trainer:Trainer", "_update", 11),
    ),
}


def _kill_in(command: str, hook: Hook | None) -> None:
    # Use chunks of a few lines, so that some are on disk.
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = 32
    fork_commands(command, hook)


def _kill_while_selecting() -> None:
    _kill_in("", None)
    process.signal_at("transformer_cli.extensions.experiments.distill", "stream_lines", 4)


@pytest.mark.long
@pytest.mark.posix
def test_killed_in_each_stage_it_ends_in_the_same_bytes(distilled: Path, tmp_path: Path) -> None:
    _write(tmp_path)
    for stage, (command, hook) in KILLS.items():
        killed = _distill(tmp_path, before=partial(_kill_in, command, hook))
        assert killed.code == -signal.SIGKILL, killed.err
        assert killed.err.rstrip().splitlines()[-1] != f"{stage}: done"
        if stage.startswith("translate"):
            assert list((tmp_path / "runs/distill/file/forward").glob("*.partial.json"))
            selecting = _distill(tmp_path, before=_kill_while_selecting)
            assert selecting.code == -signal.SIGKILL
            assert "translate forward train: resumed\n" in selecting.err
            assert selecting.err.endswith("select forward train: started\n")
    finished = _distill(tmp_path, before=partial(_kill_in, "", None))
    assert finished.code == 0, finished.err
    assert "train student: resumed from step 10\n" in finished.err
    assert "resuming from step 10\n" in finished.err
    assert _sums(tmp_path) == _sums(distilled)


def test_changed_stages_and_all_later_ones_run_again(distilled: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(distilled, directory)
    teacher = directory / "runs" / "teacher"
    before = {path: path.stat().st_mtime_ns for path in teacher.glob("checkpoints/*/manifest.json")}
    (directory / "file.yaml").write_text(FILE.replace("size: 2", "size: 3"))
    again = _distill(directory)
    assert again.code == 0, again.err
    stages = re.findall(r"^(.*): (?:started|resumed)", again.err, flags=re.M)
    assert stages[0] == "translate forward train"
    assert "translate forward train: started again because search changed\n" in again.err
    assert not {"train runs/teacher", "text", "score teacher-1"} & set(stages)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # The finished student is kept.
    student = Path("runs/distill/file/student")
    [earlier] = re.findall(r"; the earlier one is now (.*)\n", again.err)
    assert re.fullmatch(rf"{student}\.\d{{4}}-\d\d-\d\d", earlier)
    old = sorted((distilled / student / "checkpoints").iterdir())
    assert sorted((directory / earlier / "checkpoints").iterdir()) == [
        directory / earlier / "checkpoints" / path.name for path in old
    ]


def test_a_teacher_trained_with_other_settings_is_refused(distilled: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(distilled, directory)
    shutil.rmtree(directory / "runs" / "distill")
    text = (directory / "teacher.yaml").read_text()
    (directory / "teacher.yaml").write_text(text.replace("epochs: 4", "epochs: 6"))
    dry = _distill(directory, "--dry-run")
    assert re.search(r"^train runs/teacher +to do$", dry.out, flags=re.M), dry.out
    use = "name runs/teacher instead of the file to use it as it is"
    (directory / "teacher.yaml").write_text(f"{text}\nseed: 7\n")
    refused = _distill(directory)
    process.assert_refused(refused, 2, "trained with other settings (seed was ", use)
    assert not (directory / "runs" / "distill").exists()


def test_a_teacher_that_was_trained_by_itself_is_done(distilled: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(distilled, directory)
    shutil.rmtree(directory / "runs" / "distill")
    dry = _distill(directory, "--dry-run")
    assert re.search(r"^train runs/teacher +done$", dry.out, flags=re.M), dry.out
    assert dry.out.endswith("\n6 of 7 stages left\n")


@pytest.mark.posix
def test_a_linked_student_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    out = tmp_path / "runs" / "distill" / "file"
    out.mkdir(parents=True)
    DistillDirectory(out).create("auto")
    (out / "student").symlink_to(tmp_path)
    process.assert_refused(_distill(tmp_path), 1, "runs/distill/file/student: is a link")


@pytest.mark.posix
def test_a_second_process_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "runs/distill/file").mkdir(parents=True)
    with lock_directory(tmp_path / "runs/distill/file"):
        refused = _distill(tmp_path, before=do_not_wait)
    process.assert_refused(refused, 1, "runs/distill/file: in use by process")


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "thesis.tex").touch()
    refused = _distill(tmp_path, "--dir", ".")
    process.assert_refused(refused, 2, "contains files, but no distill.json")


def test_a_failed_stage_is_reported(tmp_path: Path) -> None:
    _write(tmp_path)
    with (tmp_path / "teacher.yaml").open("a") as file:
        file.write("  max_length: 1\n")
    failed = _distill(tmp_path)
    assert failed.code == 1
    assert failed.out == ""
    lines = failed.err.splitlines()
    (error,) = [line for line in lines if line.startswith("transformer-cli: error: ")]
    assert error.startswith("transformer-cli: error: split 'train': every pair is longer")
    assert "text: done" in lines  # which does not need it
    assert lines[-1].startswith(
        "train runs/teacher: failed; correct the error, then run it again to resume"
    )


def test_a_dry_run_lists_the_stages_and_writes_nothing(tmp_path: Path) -> None:
    _write(tmp_path, FILE + LONGER)
    before = sorted(tmp_path.rglob("*"))
    dry = _distill(tmp_path, "--dry-run")
    assert dry.code == 0, dry.err
    for stage in ("translate forward train", "translate back 1-mono", "train student"):
        assert re.search(f"^{stage} +to do$", dry.out, flags=re.M), dry.out
    assert sorted(tmp_path.rglob("*")) == before


STUBBORN = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("begun", flush=True)
time.sleep(60)
"""


def test_a_stop_is_passed_on_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "CHILD", (sys.executable, "-c", STUBBORN))
    directory = DistillDirectory(tmp_path / "out")
    directory.create("auto")
    job = Job("stage", outputs=list, command=("train",), stdout=tmp_path / "out" / "result")
    log = directory.file("stage", ".out")
    with lock_directory(directory.path) as lock:
        runner = Runner(directory, [job], lock)
        begun = lambda: log.exists() and log.read_text() == "begun\n"  # noqa: E731
        assert [event.what for event in runner.run(begun)] == ["started"]
    assert not (tmp_path / "out" / "result").exists()
    record = directory.read("stage")
    assert record is not None
    assert not record.files


KILLED_AT = (
    b"run           runs/teacher",
    b"translate forward train: ",
    b"translate back 1-mono: ",
    b"step 20/24, ",
    b"score student: ",
)
"""What lines on stderr begin with, in the order of the stages."""


@pytest.mark.long
@pytest.mark.posix
def test_ctrl_c_and_kills_with_processes_of_its_own(tmp_path: Path) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    arguments = ("distill", "file.yaml", "--threads", "1", "--precision", "float32")
    for directory in (alone, killed):
        directory.mkdir()
        _write(directory, FILE + LONGER)
    finished = process.run_anew(*arguments, cwd=alone)
    assert finished.code == 0, finished.err

    def start_and_wait_for(line_start: bytes) -> subprocess.Popen[bytes]:
        worker = children.start(
            [sys.executable, "-m", "transformer_cli", *arguments],
            {**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=killed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert worker.stderr is not None
        lines = []
        for line in worker.stderr:
            if line.startswith(line_start):
                return worker
            lines.append(line)
        pytest.fail(f"no line {line_start!r} in {lines}")

    worker = start_and_wait_for(b"train runs/teacher: started")
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate()
    assert (worker.returncode, out) == (130, b"")
    assert b"run it again to resume" in err
    for line_start in KILLED_AT:
        worker = start_and_wait_for(line_start)
        worker.kill()
        worker.communicate()
    finished = process.run_anew(*arguments, cwd=killed)
    assert finished.code == 0, finished.err
    assert _sums(killed) == _sums(alone)

"""Links, pipes and devices in a stranger's directory: nothing is written elsewhere, and none hangs.

The files are those that are there, so that a new one is tried without being listed here.
"""

import ast
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from cli.conftest import TINY, Training
from cli.process import Finished, assert_refused, run
from installed import has_command

import transformer_cli
from transformer_cli.base.errors import RunError
from transformer_cli.base.files import check_no_links, read_small
from transformer_cli.base.locations import open_regular
from transformer_cli.runs.directory import RunDirectory, lock_directory
from transformer_cli.runs.metrics_log import read_records

pytestmark = pytest.mark.posix

PATIENCE = 300
"""Seconds after which a process that waits for a pipe's other end is killed."""
SPARE_BYTES = 1 << 30
"""What a command may take besides what the forked process has."""


def limit() -> None:
    """End this process if it waits for ever, and refuse it a gigabyte."""
    import resource

    signal.alarm(PATIENCE)
    status = Path("/proc/self/status").read_text()
    used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + SPARE_BYTES,) * 2)


def contents(directory: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def all_below(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def files_below(directory: Path) -> list[Path]:
    return [path for path in all_below(directory) if path.is_file()]


class Replaced:
    """What stands in a path's place while a block runs."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.aside = path.with_name(f"{path.name} aside")

    def __enter__(self) -> None:
        self.path.rename(self.aside)
        if self.kind == "pipe":
            os.mkfifo(self.path)
        else:
            self.path.symlink_to({"zero": Path("/dev/zero"), "link": self.aside}[self.kind])

    def __exit__(self, *exception: object) -> None:
        self.path.unlink()
        self.aside.rename(self.path)


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", ["link", "pipe", "zero"])
def test_what_is_written_to_has_nothing_but_files(own_run: Path, kind: str) -> None:
    """Each file and each directory below is looked at before anything is written."""
    assert_looked_at(own_run, RunDirectory(own_run).check_is_run_or_empty, "run.json", kind)


def assert_looked_at(directory: Path, check: Callable[[], object], mark: str, kind: str) -> None:
    """A check refuses each path below a directory that is something else than a file."""
    check()
    for path in all_below(directory):
        if kind != "link" and path == directory / mark:
            continue  # it is not known for ours, so nothing is written
        with Replaced(path, kind), pytest.raises(RunError) as refused:
            check()
        assert str(refused.value).startswith(f"{path}: is a ")
        assert "\n" not in str(refused.value)


@pytest.mark.long_cases
@pytest.mark.parametrize("whole", [False, True], ids=["files", "directories"])
def test_commands_write_nothing_through_links(own_run: Path, tmp_path: Path, whole: bool) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "outside").mkdir()
    replace_by_links(own_run, tmp_path / "outside", whole)
    before = contents(tmp_path / "outside")
    for arguments in (
        ("train", "tiny.yaml", "--run-dir", "run", "--set", "training.epochs=13"),
        ("train", "tiny.yaml", "--run-dir", "run", "--overwrite"),
        ("vocab", "tiny.yaml", "--run-dir", "run"),
        ("average", "run"),
    ):
        if has_command(arguments[0]):
            refused = run(*arguments, cwd=tmp_path, before=limit)
            assert_refused(refused, 1, ": is a link, ")
    assert contents(tmp_path / "outside") == before


def replace_by_links(directory: Path, outside: Path, whole: bool) -> None:
    """Move what a directory has, but for its mark, elsewhere, and leave links to it."""
    elsewhere = outside / directory.name
    shutil.copytree(directory, elsewhere)
    for path in sorted(directory.iterdir()) if whole else files_below(directory):
        if path.name in ("run.json", "sweep.json", "distill.json"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        path.symlink_to(elsewhere / path.relative_to(directory))


def test_a_file_that_is_written_in_place_has_no_other_name(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run").mkdir()
    os.link(tmp_path / "precious", tmp_path / "run" / ".lock")
    with (
        pytest.raises(RunError, match=r"/run/\.lock: .* has another name"),
        lock_directory(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_looking_at_many_files_reads_none(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").write_text("")
        (tmp_path / f"{number}" / "file").chmod(0)
    check_no_links(tmp_path)
    check_no_links(tmp_path / "nowhere")


# --- reading --------------------------------------------------------------------------------------


def assert_in_good_order(finished: Finished, path: Path) -> None:
    """It does without the file, or says in one line what it is."""
    assert "Traceback" not in finished.err, finished.err
    assert "out of memory" not in finished.err, finished.err
    if finished.code != 0:
        assert_refused(finished, finished.code, str(path))
    assert finished.code in (0, 1, 2)


def newest_files(run_: Path) -> Iterator[Path]:
    """Yield the files but those of older checkpoints, and of the training's text."""
    newest = max(run_.glob("checkpoints/*"), default=run_)
    for path in files_below(run_):
        if path.parent == newest or not {"checkpoints", "encoded"}.intersection(path.parts):
            yield path


@pytest.mark.long_cases
@pytest.mark.parametrize("form", ["run", "hub", "ctranslate2"])
def test_translating_waits_for_no_pipe_and_reads_no_device(
    training: Training, own_run: Path, form: str
) -> None:
    model, options = own_run, ["--checkpoint", "last"]
    if form != "run":
        if not has_command("export"):
            pytest.skip("export is not installed")
        options = []
        model = own_run.parent / form
        made = run("export", training.run, model, "--format", form)
        assert made.code == 0, made.err
    expected = run("translate", model, *options, stdin=b"1 2\n", before=limit)
    assert expected.code == 0, expected.err
    refused = 0
    for number, path in enumerate(newest_files(model)):
        with Replaced(path, ("pipe", "zero")[number % 2]):
            found = run("translate", model, *options, stdin=b"1 2\n", before=limit)
        assert_in_good_order(found, path.parent if path.parent != model else model)
        refused += found.code != 0
        assert found.code != 0 or found.out == expected.out
    assert refused >= 4


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize(
    "command",
    ["translate", "evaluate", "report", "compare", "export", "attention", "vocab", "init"],
)
def test_no_command_waits_or_reads_without_end(
    training: Training, own_run: Path, command: str, kind: str
) -> None:
    if command != "init" and not has_command(command):
        pytest.skip(f"{command} is not installed")
    arguments: dict[str, list[str | Path]] = {
        "compare": [own_run, training.run],
        "export": [own_run, own_run.parent / "exported", "--format", "hub"],
        "attention": [own_run, "1 2", "-o", own_run.parent / "picture.png"],
        "vocab": [training.config, "--run-dir", own_run],
        "init": [
            *(training.config, "--run-dir", own_run.parent / "heir"),
            *("--set", f"init={own_run}", "--set", "training.max_steps=1"),
        ],
    }
    name = "train" if command == "init" else command
    for path in files_below(own_run):
        with Replaced(path, kind):
            found = run(name, *arguments.get(command, [own_run]), before=limit)
        for made in ("exported", "heir"):
            shutil.rmtree(own_run.parent / made, ignore_errors=True)
        assert found.code in (0, 1, 2), f"{path}: {found.err}"
        assert "Traceback" not in found.err, f"{path}: {found.err}"
        assert "out of memory" not in found.err, f"{path}: {found.err}"


@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize("command", [each for each in ("check", "train") if has_command(each)])
def test_a_configured_text_is_a_file(tmp_path: Path, command: str, kind: str) -> None:
    texts = "{src: a, tgt: b}"
    (tmp_path / "own.yaml").write_text(
        f"data: {{kind: files, src_lang: de, tgt_lang: en, train: {texts}, val: {texts}}}\n"
        "tokenizer: {kind: words}\n"
    )
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\n")
    with Replaced(tmp_path / "a", kind):
        finished = run(command, "own.yaml", cwd=tmp_path, before=limit)
    assert_refused(finished, 1, "a: a pipe or a device can be read only once", "save it in a file")


def test_pipes_that_a_user_names_are_read(training: Training, tmp_path: Path) -> None:
    """As a shell's <(command) is one."""
    for name in ("src", "ref"):
        os.mkfifo(tmp_path / name)
    for arguments in (["translate", "-i", "src"], ["evaluate", "--src", "src", "--ref", "ref"]):
        writers = [
            Thread(target=(tmp_path / name).write_text, args=("1 2 3\n2 1 3\n",), daemon=True)
            for name in arguments[2::2]
        ]
        for writer in writers:
            writer.start()
        command, *options = arguments
        finished = run(command, training.run, *options, cwd=tmp_path, before=limit)
        assert finished.code == 0, finished.err
        for writer in writers:
            writer.join()


# --- one reader -----------------------------------------------------------------------------------


def test_a_file_is_read_only_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_small(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="has 5 bytes, but the limit is 4"):
        read_small(tmp_path / "file", 4)
    with pytest.raises(IsADirectoryError):
        read_small(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "nothing")


def test_metrics_have_lines_of_bounded_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    record = b'{"step": 1, "kind": "train"}\n'
    metrics.write_bytes(b"x" * (3 << 20) + b"\n" + record)
    assert read_records(metrics) == [{"step": 1, "kind": "train"}]
    monkeypatch.setattr("transformer_cli.runs.metrics_log._MAX_BYTES", 1000)
    with pytest.raises(RunError, match=r"metrics\.jsonl: has more than"):
        read_records(metrics)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    """The Hub's cache is made of links."""
    (tmp_path / "blob").write_bytes(b"text")
    (tmp_path / "link").symlink_to("blob")
    assert read_small(tmp_path / "link") == b"text"
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link", "ab")


# Of files that are the program's or the system's own, or that were made just now.
READ_OTHERWISE = {
    "base/locations.py",  # a pipe that the user has named
    "base/registry.py",  # its own modules
    "cli/init.py",
}


def test_no_module_reads_files_in_another_way() -> None:
    package = Path(transformer_cli.__file__).parent
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if reads(path)}
    assert {path for path in found if not path.startswith("extensions/")} == READ_OTHERWISE


def reads(path: Path) -> bool:
    """Return whether a module opens files to read them by itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if name in ("read_text", "read_bytes", "memmap", "fromfile"):
                return True
            if name == "open" and modes[:1] in (["r"], ["rb"], ["r+b"], ["r+"]):
                return True
    return False

"""Links, pipes and devices in a stranger's directory: nothing is written elsewhere, and none hangs.

The files are those that are there, so that a new one is tried without being listed here.
"""

import ast
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from cli.conftest import TINY, Training
from cli.process import Finished, assert_refused, run

import transformer_cli
from transformer_cli.base.artifact import write_record
from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.base.files import check_no_links, read_small
from transformer_cli.base.locations import open_regular
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.experiments.distill import DistillDirectory
from transformer_cli.extensions.experiments.groups import JobRecord
from transformer_cli.extensions.experiments.sweep import SweepDirectory
from transformer_cli.runs.directory import RunDirectory, lock_directory
from transformer_cli.runs.metrics_log import read_records

pytestmark = pytest.mark.posix

PATIENCE = 300
"""Seconds after which a process that waits for a pipe's other end is killed."""
SPARE_BYTES = 1 << 30
"""What a command may take besides what the forked process has."""
GRID = "base: tiny.yaml\nseeds: 1\ngrid: {training.schedule.peak: [1e-2]}\nevaluate: [test]\n"
DISTILLATION = "teachers: [tiny.yaml]\nstudent: tiny.yaml\n"


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


@pytest.fixture
def swept(training: Training, tmp_path: Path) -> Path:
    """A sweep's directory with something of all that it may hold."""
    sweep = SweepDirectory(tmp_path / "sweep")
    sweep.create()
    for name in ("runs/peak=0.01/seed-1", "runs/peak=0.01/seed-2"):
        shutil.copytree(training.run, sweep.path / name)
    shutil.copytree(training.run / "tokenizer", sweep.path / "data" / "0123" / "tokenizer")
    records = {1: JobRecord(made_of={}, state="done"), 2: JobRecord(made_of={}, state="failed")}
    for seed, record in records.items():
        path = sweep.file(f"runs/peak=0.01/seed-{seed}", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, record)
    plan = {"points": ["peak=0.01"], "seeds": [1], "reference": "peak=0.01", "metric": "bleu"}
    for name, text in {
        "plan.json": json.dumps({**plan, "evaluate": ["test"]}),
        "report.html": "",
        "study.journal": "",
        "study.lock": "",
        "jobs/runs/peak=0.01/seed-1.log": "",
        "jobs/runs/peak=0.01/seed-1.lock": "",
        "scores/test/peak=0.01/seed-1/translations.txt": "1\n" * 20,
        "scores/test/peak=0.01/seed-1/scores.json": "{}",
    }.items():
        path = sweep.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sweep.path


@pytest.fixture
def distilled(training: Training, tmp_path: Path) -> Path:
    """The directory of a distillation with something of all that it may hold."""
    directory = DistillDirectory(tmp_path / "distilled")
    directory.create()
    shutil.copytree(training.run, directory.student.path)
    for name in ("student.yaml", "text/train.src", "forward/train.tgt", "scores/student.json"):
        (directory.path / name).parent.mkdir(exist_ok=True)
        (directory.path / name).write_text("")
    for name in (".lock", "forward/train.tgt.partial.json", "back/1-mono.src"):
        (directory.path / name).parent.mkdir(exist_ok=True)
        (directory.path / name).touch()
    return directory.path


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", ["link", "pipe", "zero"])
def test_what_is_written_to_has_nothing_but_files(
    own_run: Path, swept: Path, distilled: Path, kind: str
) -> None:
    """Each file and each directory below is looked at before anything is written."""
    checks: dict[Path, Callable[[], object]] = {
        own_run: RunDirectory(own_run).check_is_run_or_empty,
        swept: SweepDirectory(swept).check,
        distilled: DistillDirectory(distilled).check,
    }
    for directory, check in checks.items():
        check()
        marks = {own_run / "run.json", swept / "sweep.json", distilled / "distill.json"}
        for path in all_below(directory):
            if kind != "link" and path in marks:
                continue  # it is not known for ours, so nothing is written
            with Replaced(path, kind), pytest.raises(RunError) as refused:
                check()
            assert str(refused.value).startswith(f"{path}: is a ")
            assert "\n" not in str(refused.value)


@pytest.mark.long_cases
@pytest.mark.parametrize("whole", [False, True], ids=["files", "directories"])
def test_commands_write_nothing_through_links(
    own_run: Path, swept: Path, distilled: Path, tmp_path: Path, whole: bool
) -> None:
    for name, text in {"tiny": TINY, "grid": GRID, "file": DISTILLATION}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (own_run / "report.html").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    for directory in (own_run, swept, distilled):
        elsewhere = outside / directory.name
        shutil.copytree(directory, elsewhere)
        for path in sorted(directory.iterdir()) if whole else files_below(directory):
            if path.name in ("run.json", "sweep.json", "distill.json"):
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(elsewhere / path.relative_to(directory))
    before = contents(outside)
    for arguments in (
        ("train", "tiny.yaml", "--run-dir", "run", "--set", "training.epochs=13", "--extend"),
        ("train", "tiny.yaml", "--run-dir", "run", "--overwrite"),
        ("vocab", "tiny.yaml", "--run-dir", "run"),
        ("average", "run"),
        ("report", "run"),
        ("report", "sweep"),
        ("sweep", "grid.yaml", "--sweep-dir", "sweep"),
        ("distill", "file.yaml", "--dir", "distilled"),
    ):
        assert_refused(run(*arguments, cwd=tmp_path, before=limit), 1, ": is a link, ")
    assert contents(outside) == before


def test_a_page_goes_through_no_link_in_the_run(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("")
    (own_run / "report.html").symlink_to(tmp_path / "page.html")
    for options in ((), ("-o", own_run / "report.html")):
        assert_refused(run("report", own_run, *options), 1, "run/report.html: is a link")
    assert (tmp_path / "page.html").read_text() == ""
    named = run("report", own_run, "-o", tmp_path / "page.html")
    assert named.code == 0, named.err
    assert "<html" in (tmp_path / "page.html").read_text()


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


@pytest.mark.long
def test_a_sweeps_page_waits_for_no_pipe_and_reads_no_device(swept: Path) -> None:
    others = ("runs", "data")  # as of a run
    files = [path for path in files_below(swept) if path.relative_to(swept).parts[0] not in others]
    metrics = swept / "runs" / "peak=0.01" / "seed-1" / "metrics.jsonl"
    for number, path in enumerate([*files, metrics]):
        with Replaced(path, ("pipe", "zero")[number % 2]):
            found = run("report", swept, "-o", swept.parent / "page.html", before=limit)
        assert_in_good_order(found, swept)


@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize(
    "source",
    [
        {"src": "a", "tgt": "a"},
        {"tsv": "a", "src_column": "1", "tgt_column": "2"},
        {"jsonl": "a", "src_field": "s", "tgt_field": "t"},
        {"parquet": "a", "src_field": "s", "tgt_field": "t"},
        {"tmx": "a"},
        {"po": "a"},
    ],
    ids=lambda source: next(iter(source)),
)
def test_a_source_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    reader = open_source(SourceConfig.model_validate(source), "de", "en")
    with Replaced(Path("a"), kind):
        for read in (lambda: list(reader.pairs()), reader.source_sha256):
            with pytest.raises(CorpusError, match=r"/a: [^\n]*$"):
                read()


@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize("command", ["check", "train"])
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
    with pytest.raises(OSError, match="has 5 bytes, more than the 4 of any such file"):
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
    "config/shipped.py",
    "training/memory.py",
    "base/writing.py",
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

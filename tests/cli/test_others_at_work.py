"""Files that a command writes while others save, read or write the same ones: nothing is lost."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from installed import has_command

from cli.conftest import Training
from cli.process import Finished, assert_refused, run
from transformer_cli.base.writing import claim

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "1 2"\nmsgstr ""\n'
CORPUS = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{tsv: a.tsv, src_column: 1, tgt_column: 2}]
  split: {val: 1}
tokenizer: {kind: words}
"""
PLAIN = ("lines", "lines of a pipe", "alignments", "evaluate")
"""Cases that need no extension."""
COMMANDS = {
    "in place": ("de.po", ["translate", "RUN", "-i", "de.po", "-o", "de.po"]),
    "document": ("x.po", ["translate", "RUN", "-i", "de.po", "-o", "x.po"]),
    "page": ("p.html", ["translate", "RUN", "-i", "de.po", "-o", "x.po", "--report", "p.html"]),
    "lines": ("out.txt", ["translate", "RUN", "-i", "in.txt", "-o", "out.txt"]),
    "lines of a pipe": ("out.txt", ["translate", "RUN", "-o", "out.txt"]),
    "alignments": ("links", ["translate", "RUN", "-i", "in.txt", "--alignments", "links"]),
    "evaluate": ("out.txt", ["evaluate", "RUN", "-o", "out.txt"]),
    "attention": ("a.svg", ["attention", "RUN", "1 2", "-o", "a.svg"]),
    "report": ("p.html", ["report", "RUN", "-o", "p.html"]),
    "clean": ("p.html", ["clean", "corpus.yaml", "-o", "cleaned", "--report", "p.html"]),
}
if not has_command("report"):
    COMMANDS = {each: COMMANDS[each] for each in PLAIN}
SHORT = ("in place", "lines")
each_command = pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in SHORT else pytest.mark.long) for case in COMMANDS],
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "de.po").write_text(PO)
    (tmp_path / "in.txt").write_text("1 2\n3\n")
    (tmp_path / "corpus.yaml").write_text(CORPUS)
    (tmp_path / "a.tsv").write_text("x\ty\nz\tw\n")
    return tmp_path


def start(training: Training, here: Path, case: str, before: object = None) -> Finished:
    command = [str(training.run) if part == "RUN" else part for part in COMMANDS[case][1]]
    return run(*command, cwd=here, stdin=b"1 2\n", before=before)  # type: ignore[arg-type]


def saving(path: Path, text: str) -> None:
    """Have someone save a file, as soon as the command makes sure that something is on disk."""
    fsync = os.fsync

    def save(descriptor: int) -> None:
        path.write_text(text)
        fsync(descriptor)

    vars(os)["fsync"] = save


@each_command
@pytest.mark.parametrize("is_there", [True, False])
def test_what_someone_saves_meanwhile_is_kept(
    training: Training, here: Path, case: str, is_there: bool
) -> None:
    path = here / COMMANDS[case][0]
    if case == "in place" and not is_there:
        pytest.skip("there is nothing to fill")
    if is_there and case != "in place":
        path.write_text("older\n")
    saved = f"{path.read_text()}# saved\n" if is_there else "saved\n"
    finished = start(training, here, case, partial(saving, path, saved))
    assert finished.code == 1
    new = path.with_name(f"{path.name}.new")
    assert finished.err.splitlines()[-1].endswith(
        f"{path}: was changed by someone else while this command ran, and is left as it is; what "
        f"was to be written is kept in {new}"
    )
    assert path.read_text() == saved
    assert new.read_bytes() not in (b"", saved.encode())
    assert not list(here.glob("*.partial*"))
    # Nor is what was kept the first time lost by a second.
    path.write_text(PO if case == "in place" else "older\n")
    shutil.rmtree(here / "cleaned", ignore_errors=True)
    assert start(training, here, case, partial(saving, path, saved)).code == 1
    assert path.with_name(f"{path.name}.new-2").read_bytes() == new.read_bytes()


@each_command
def test_of_two_commands_that_write_one_file_the_second_is_refused(
    training: Training, here: Path, case: str
) -> None:
    path = here / COMMANDS[case][0]
    with claim(path):
        refused = start(training, here, case)
    assert_refused(refused, 1, f"{path}: another process is writing it; wait for it")
    assert not list(here.glob("*.partial*"))
    assert start(training, here, case).code == 0


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
@each_command
def test_what_is_replaced_keeps_its_owner_group_and_mode(
    training: Training, here: Path, case: str
) -> None:
    path = here / COMMANDS[case][0]
    path.touch()
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    before = path.stat()
    assert start(training, here, case).code == 0
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_uid, after.st_gid, after.st_mode) == (1234, 2345, before.st_mode)


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "command",
    [
        ("translate", "RUN", "-i", "in.txt", "-o", "RUN/config.yaml"),
        ("translate", "RUN", "-i", "in.txt", "-o", "RUN/new.txt"),
        ("translate", "RUN", "-i", "in.txt", "--alignments", "RUN/checkpoints/links"),
        ("translate", "RUN", "-i", "de.po", "-o", "x.po", "--report", "RUN/report.html"),
        ("translate", "RUN", "-i", "*.txt", "-o", "RUN/tokenizer"),
        ("translate", "EXPORTED", "-i", "in.txt", "-o", "EXPORTED/settings.yaml"),
        ("translate", "EXPORTED", "-i", "in.txt", "-o", "RUN/config.yaml"),
        ("translate", "RUN", "-i", "in.txt", "-o", "EXPORTED/x", "--ensemble", "EXPORTED"),
        ("evaluate", "RUN", "-o", "RUN/config.yaml"),
        ("attention", "RUN", "1 2", "-o", "RUN/curves.png"),
        ("report", "RUN", "-o", "RUN/curves.png"),
        ("export", "RUN", "RUN/exported", "--format", "hub"),
        ("clean", "corpus.yaml", "-o", "RUN/cleaned"),
        ("clean", "corpus.yaml", "-o", "cleaned", "--report", "RUN/config.yaml"),
    ],
    ids=" ".join,
)
def test_nothing_is_written_into_a_run_or_a_model(
    own_run: Path, here: Path, command: tuple[str, ...]
) -> None:
    fixture = Path(__file__).parents[1] / "fixtures" / "v1" / "exported"
    exported = shutil.copytree(fixture, here / "exported")
    before = contents(own_run) | contents(exported)
    given = [part.replace("RUN", "run").replace("EXPORTED", "exported") for part in command]
    assert_refused(run(*given, cwd=here), 2, ": lies in the run or model ", "; write elsewhere")
    assert contents(own_run) | contents(exported) == before


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}

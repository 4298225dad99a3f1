"""Many files translated into a directory: each as if alone, and none twice."""

import gzip
import json
import re
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import Finished, assert_refused, run, signal_at

from transformer_cli.base.errors import (
    InputError,
    MissingTextError,
    OutputError,
    UsageError,
    WorkerError,
)
from transformer_cli.base.files import MAX_SMALL_BYTES
from transformer_cli.cli import translation
from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.extensions.documents.command import read_memory
from transformer_cli.extensions.documents.document import Match
from transformer_cli.extensions.documents.formats import read_document
from transformer_cli.extensions.documents.options import DocumentOptions
from transformer_cli.extensions.many_files import command as many_files
from transformer_cli.extensions.many_files.output_directory import (
    RECORD,
    FileState,
    check_directory,
    find_inputs,
    open_directory,
)
from transformer_cli.inference.translator import Watcher
from transformer_cli.runs.directory import LOCK

MANY = "transformer_cli.extensions.many_files.command"
LINES = "transformer_cli.cli.translation:Translating"
TRANSLATOR = "transformer_cli.inference.translator:TextTranslator"
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "1 2"\nmsgstr ""\n'
TEXTS = {
    "a.txt": "1 2 3 4\n\n4 3 2\n5\n6 1 1 2\n",
    "b.txt": "",
    "c.txt": "2 2\n3 4 5 6\n1\n",
    "d.txt": "6 6\n5 4\n",
}


def many_options(run: Path, here: Path, **given: Any) -> TranslateOptions:
    paths = {"run": run, "input_": here / "in", "output": here / "out"}
    return build_options(TranslateOptions, "translate", **paths, **given)


def of_file(options: TranslateOptions, path: Path) -> TranslateOptions:
    return replace(options, input_=path, output=options.output / path.name)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    for name, text in TEXTS.items():
        (directory / name).write_text(text)
    (directory / "e.txt.gz").write_bytes(gzip.compress(TEXTS["a.txt"].encode()))
    (directory / ".hidden").write_text("1\n")
    (directory / "below").mkdir()
    return tmp_path


def in_small_chunks() -> None:
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = 2


def signalled_at(where: str, attribute: str, call: int, number: int | None = None) -> None:
    in_small_chunks()
    signal_at(where, attribute, call, *([] if number is None else [number]))


def translate(
    training: Training,
    here: Path,
    *options: str | Path,
    inputs: str = "in",
    before: object = in_small_chunks,
) -> Finished:
    return run(
        "translate",
        training.run,
        "-i",
        inputs,
        "-o",
        "out",
        *options,
        cwd=here,
        before=before,  # type: ignore[arg-type]
    )


def killed_before(
    training: Training, here: Path, attribute: str, call: int = 1, where: str = MANY
) -> Finished:
    """Run again; a call of a function of many_files would kill it."""
    return translate(training, here, before=partial(signalled_at, where, attribute, call))


def visible(directory: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in directory.iterdir())
    return {name: (directory / name).read_bytes() for name in names if not name.startswith(".")}


@pytest.fixture(scope="module")
def expected(training: Training, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of ``translate`` for each file alone."""
    directory = tmp_path_factory.mktemp("alone")
    data = {}
    for name, text in {**TEXTS, "e.txt.gz": TEXTS["a.txt"]}.items():
        is_plain = name.endswith(".txt")
        (directory / name).write_bytes(
            text.encode() if is_plain else gzip.compress(text.encode(), mtime=0)
        )
        target = directory / f"out-{name}"
        alone = run(
            "translate", training.run, "-i", directory / name, "-o", target, before=in_small_chunks
        )
        assert alone.code == 0, alone.err
        data[name] = target.read_bytes()
    return data


# --- what is made ---------------------------------------------------------------------------------


def test_each_file_is_what_it_would_be_alone(
    training: Training, here: Path, expected: dict[str, bytes]
) -> None:
    finished = translate(training, here)
    assert (finished.code, finished.out) == (0, "")
    assert finished.err == "translated 5 of 5 files\n"
    assert visible(here / "out") == expected
    assert gzip.decompress(expected["e.txt.gz"]) == expected["a.txt"] != b""


def test_a_pattern_names_some(training: Training, here: Path, expected: dict[str, bytes]) -> None:
    assert translate(training, here, inputs="in/?.txt").code == 0
    assert visible(here / "out") == {name: expected[name] for name in TEXTS}
    # More files, in the same directory.
    assert translate(training, here, inputs=str(here / "i?" / "*")).code == 0
    assert visible(here / "out") == expected


def test_the_directory_that_one_is_in_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    assert find_inputs(Path()) == [Path("a.txt")]


def test_brackets_of_a_pattern_are_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "[a]").mkdir()
    for name in ("[a]b.txt", "ab.txt"):
        (tmp_path / "[a]" / name).write_text("1\n")
    assert find_inputs(tmp_path / "[a]" / "[a]*.txt") == [tmp_path / "[a]" / "[a]b.txt"]


def test_tables_have_a_new_column(training: Training, here: Path) -> None:
    (here / "in" / "t.tsv").write_text("id\tde\n7\t1 2\n")
    (here / "in" / "u.tsv").write_text("de\tid\n3 4\t8\n")
    finished = translate(training, here, "--src-column", "de", inputs="in/*.tsv")
    assert finished.code == 0, finished.err
    made = visible(here / "out")
    assert made.keys() == {"t.tsv", "u.tsv"}
    assert made["u.tsv"].decode().splitlines()[0] == "de\tid\ttranslation"
    assert made["t.tsv"].startswith(b"id\tde\ttranslation\n7\t1 2\t")


def test_a_memory_may_be_of_many_files(training: Training, here: Path) -> None:
    (here / "tm").mkdir()
    for number in range(2):
        (here / "tm" / f"{number}.tsv").write_text(f"x {number}\tneun {number}\n")
        (here / "in" / f"{number}.txt").write_text(f"x {number}\n")
    finished = translate(training, here, "--memory", "tm/*.tsv", inputs="in/?.txt")
    assert finished.code == 0, finished.err
    made = visible(here / "out")
    assert (made["0.txt"], made["1.txt"]) == (b"neun 0\n", b"neun 1\n")


def test_lines_that_are_cut_are_reported_once_per_file(training: Training, here: Path) -> None:
    long = " ".join(str(1 + number % 6) for number in range(1100))
    (here / "in" / "b.txt").write_text(f"1\n{long}\n{long}\n")
    finished = translate(training, here, "--max-length", "2")
    assert finished.code == 0
    (line,) = [each for each in finished.err.splitlines() if "tokens" in each]
    assert "b.txt: line 2: 1,100 tokens, translated in 2 pieces; 1 more" in line


# --- run again ------------------------------------------------------------------------------------


def test_existing_translations_are_not_made_again(training: Training, here: Path) -> None:
    assert translate(training, here).code == 0
    before = visible(here / "out")
    finished = killed_before(training, here, "write", where=LINES)
    assert finished.err == "translated 0 of 5 files; already there: 5\n"
    assert visible(here / "out") == before


def test_changed_files_are_translated_again(
    training: Training, here: Path, expected: dict[str, bytes]
) -> None:
    assert translate(training, here).code == 0
    (here / "in" / "a.txt").write_text(TEXTS["c.txt"])
    (here / "out" / "d.txt").unlink()
    # Two files are written, and a third would kill it.
    finished = killed_before(training, here, "write", 3, where=LINES)
    assert finished.err == "translated 2 of 5 files; already there: 3\n"
    assert visible(here / "out") == {**expected, "a.txt": expected["c.txt"]}


@pytest.mark.parametrize("is_new_source", [False, True])
def test_an_edited_translation_is_not_overwritten(
    training: Training, here: Path, expected: dict[str, bytes], is_new_source: bool
) -> None:
    assert translate(training, here).code == 0
    (here / "out" / "c.txt").write_text("corrected\n")
    if is_new_source:
        (here / "in" / "c.txt").write_text("1 1\n")
    finished = translate(training, here)
    assert finished.code == 1
    assert f"error: {here / 'out' / 'c.txt'}: was changed after it was translated" in finished.err
    assert visible(here / "out") == {**expected, "c.txt": b"corrected\n"}
    (here / "out" / "c.txt").unlink()
    assert translate(training, here).code == 0


def test_a_file_of_someone_else_is_not_overwritten(training: Training, here: Path) -> None:
    assert translate(training, here, inputs="in/a.txt*").code == 0
    (here / "out" / "c.txt").write_text("mine\n")
    refused = translate(training, here)
    assert_refused(refused, 2, "out/c.txt: exists, but no record says it is a translation")
    assert visible(here / "out")["c.txt"] == b"mine\n"
    assert visible(here / "out").keys() == {"a.txt", "c.txt"}


def with_other_ctranslate2() -> None:
    import importlib.metadata

    versions = {"ctranslate2": "9.9"}
    importlib.metadata.version = lambda name: versions.get(name, "1")  # type: ignore[assignment]


def test_another_version_does_not_add_to_a_directory(training: Training, here: Path) -> None:
    assert translate(training, here, inputs="in/a.txt*").code == 0
    refused = translate(training, here, before=with_other_ctranslate2)
    assert_refused(refused, 2, "its translations have ctranslate2 ", ", not 9.9; name a new")


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("where", "attribute", "call"),
    [
        ("transformer_cli.base.writing", "sync", 1),  # the record is not in its place yet
        (f"{MANY}:OutputDirectory", "note", 1),
        (TRANSLATOR, "translate_encoded", 3),
        ("transformer_cli.inference.output:Output", "commit", 4),
    ],
)
def test_a_killed_translation_continues(
    training: Training,
    here: Path,
    expected: dict[str, bytes],
    where: str,
    attribute: str,
    call: int,
) -> None:
    killed = translate(training, here, before=partial(signalled_at, where, attribute, call))
    assert killed.code == -signal.SIGKILL
    for name, data in visible(here / "out").items():
        assert ".partial" in name or data == expected[name]
    assert translate(training, here).code == 0
    assert visible(here / "out") == expected
    assert {path.name for path in (here / "out").iterdir()} - {*expected} == {RECORD, LOCK}


def test_chunks_of_a_file_are_not_translated_again(
    training: Training, here: Path, expected: dict[str, bytes]
) -> None:
    kill = partial(signalled_at, TRANSLATOR, "translate_encoded", 3)
    assert translate(training, here, inputs="in/a.txt*", before=kill).code == -signal.SIGKILL
    assert translate(training, here, inputs="in/a.txt*", before=kill).code == 0
    assert visible(here / "out") == {"a.txt": expected["a.txt"]}


def test_an_input_that_changed_after_an_interruption_is_started_again(
    training: Training, here: Path, expected: dict[str, bytes]
) -> None:
    kill = partial(signalled_at, TRANSLATOR, "translate_encoded", 3)
    assert translate(training, here, before=kill).code == -signal.SIGKILL
    (here / "in" / "a.txt").write_text(TEXTS["c.txt"])
    assert translate(training, here).code == 0
    assert visible(here / "out") == {**expected, "a.txt": expected["c.txt"]}


def test_ctrl_c_says_how_to_resume(training: Training, here: Path) -> None:
    stop = partial(signalled_at, TRANSLATOR, "translate_encoded", 4, signal.SIGINT)
    finished = translate(training, here, before=stop)
    assert finished.code == 130
    assert "translated 2 of 5 files; run the same command again to resume\n" in finished.err


# --- mistakes in files ----------------------------------------------------------------------------


def test_a_bad_file_does_not_keep_others_from_being_translated(
    training: Training, here: Path, expected: dict[str, bytes]
) -> None:
    (here / "in" / "a.txt").write_bytes(b"1\n2\n3\n\xff\n")
    (here / "in" / "e.txt.gz").write_bytes(gzip.compress(b"1 2\n" * 100)[:-9])
    finished = translate(training, here)
    assert finished.code == 1
    first, second, count, error = finished.err.splitlines()
    assert first.startswith(f"error: {here / 'in' / 'a.txt'}:4: not UTF-8")
    assert second.startswith(f"error: {here / 'in' / 'e.txt.gz'}: damaged or cut-off gzip file")
    assert count == "translated 3 of 5 files"
    assert error.startswith("transformer-cli: error: 2 of 5 files could not be translated; fix")
    made = visible(here / "out")
    assert {name: made[name] for name in expected if name in made} == {
        name: expected[name] for name in ("b.txt", "c.txt", "d.txt")
    }
    (here / "in" / "a.txt").write_text(TEXTS["a.txt"])
    (here / "in" / "e.txt.gz").write_bytes(gzip.compress(TEXTS["a.txt"].encode()))
    assert translate(training, here).code == 0
    assert visible(here / "out") == expected


class _Killing(Executor):
    """A cluster in which a file kills its workers."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if args and args[0].options.input_.name == "c.txt":
            future.set_exception(WorkerError("the workers have died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_file_that_kills_workers_has_failed_alone(
    training: Training, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "out").mkdir()
    options = many_options(training.run, here, threads=1)
    settings = many_files.describe_translator(options)
    names = ("a.txt", "c.txt", "d.txt")
    tasks = [
        many_files.Task(of_file(options, here / "in" / name), settings, None, is_shared=True)
        for name in names
    ]
    with (
        open_directory(here / "out", settings) as directory,
        pytest.raises(InputError, match="1 of 3 files could not be translated"),
    ):
        many_files._translate_all(tasks, _Killing(), directory)
    assert f"error: {here / 'in' / 'c.txt'}: the workers have died\n" in capsys.readouterr().err
    assert visible(here / "out").keys() == {"a.txt", "d.txt"}


@pytest.mark.long
def test_a_record_of_very_many_files_is_read_again(tmp_path: Path) -> None:
    state = FileState(input_sha256="0" * 64, output_sha256="0" * 64)
    with open_directory(tmp_path, {}) as directory:
        directory._record.files.update({f"{number:5000}": state for number in range(5000)})
    assert (tmp_path / RECORD).stat().st_size > MAX_SMALL_BYTES
    with open_directory(tmp_path, {}) as directory:
        assert directory.begin(tmp_path / f"{3999:5000}") == state


# --- mistakes of the command line -----------------------------------------------------------------


def test_translations_made_otherwise_are_not_mixed(training: Training, here: Path) -> None:
    assert translate(training, here).code == 0
    refused = translate(training, here, "--beam-size", "2")
    assert_refused(refused, 2, "-o", "beam_size 1, not 2; name a new or an empty directory")
    refused = translate(training, here, "--scores")
    assert_refused(refused, 2, "n_best none, not 1")
    record = here / "out" / RECORD
    content = json.loads(record.read_text())
    content["content"]["settings"]["checkpoint"] = "f" * 64
    record.write_text(json.dumps(content))
    assert_refused(translate(training, here), 2, RECORD, "damaged, or from another")


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"prefix_file": Path("in/a.txt")}, "--prefix-file is for one file"),
        ({"alignments": Path("links")}, "--alignments is for one file"),
        ({"output": Path("-")}, "name a directory for their translations with -o"),
        ({"output": Path("in/a.txt")}, "-o in/a.txt: is a file, but -i names many"),
        ({"output": Path("in")}, "-o in: -i reads the files of this directory"),
        ({"output": Path()}, "-o .: contains in, but no record of translations"),
        ({"output": Path("no/out")}, "-o no/out: there is no directory no; create it first"),
        ({"input_": Path("no*")}, "-i no*: no file matches; name a directory, or a pattern"),
        pytest.param(
            *({"input_": Path("in/a**")}, "-i in/a**: "),
            marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="it is as a* there"),
        ),
        ({"input_": Path("in/below")}, "-i in/below: is a directory without files"),
        ({"input_": Path("*/a.txt")}, "in/a.txt and other/a.txt: both would become a.txt"),
        (
            {"input_": Path("other")},
            "other/t.tsv: is a table; name the column or field with its text by --src",
        ),
        (
            {"input_": Path("other/t*"), "src_column": "1", "scores": True},
            "other/t.tsv: --scores writes JSON",
        ),
        ({"input_": Path("in/a.txt"), "cluster": "tcp://h:1"}, "--cluster translates many files"),
    ],
)
def test_options_that_conflict_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], fragment: str
) -> None:
    (here / "other").mkdir()
    (here / "other" / "a.txt").write_text("1\n")
    (here / "other" / "t.tsv").write_text("1\t2\n")
    before = sorted(here.rglob("*"))
    monkeypatch.chdir(here)
    paths = {"run": Path("run"), "input_": Path("in"), "output": Path("out")}
    options = build_options(TranslateOptions, "translate", **{**paths, **given})
    with pytest.raises(UsageError, match=re.escape(fragment)):
        translation.open_format(options).translate(options)
    assert sorted(here.rglob("*")) == before


def test_a_missing_memory_is_reported_before_the_model_is_loaded(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    options = many_options(Path("run"), Path(), memory=[Path("no.tmx")])
    with pytest.raises(MissingTextError, match=r"no\.tmx: there is no such file"):
        many_files.ManyFiles().translate(options)


def test_a_binary_file_among_many(training: Training, here: Path) -> None:
    (here / "in" / "settings.ini").write_text("[a]")
    refused = translate(training, here)
    assert_refused(refused, 2, "settings.ini: its lines are not sentences", "-i 'in/*.txt'")
    (here / "in" / "page.md").write_text("1\n")
    refused = translate(training, here)
    assert_refused(refused, 2, "settings.ini: its lines are not sentences", "-i 'in/*.md'")
    assert not (here / "out").exists()


# --- a worker -------------------------------------------------------------------------------------


def test_a_worker_keeps_its_model_and_recognizes_another_one(
    training: Training, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(options: TranslateOptions) -> object:
        loaded.append(options)
        return translation.load_translator(options)

    monkeypatch.setattr(many_files, "load_translator", load)
    monkeypatch.setattr(many_files, "_loaded", None)
    (here / "out").mkdir()
    options = many_options(training.run, here, threads=1)
    settings = many_files.describe_translator(options)
    tasks = [
        many_files.Task(of_file(options, here / "in" / name), settings, None, is_shared=True)
        for name in ("a.txt", "c.txt")
    ]
    results = [many_files.translate_file(task) for task in tasks]
    assert [result.lines for result in results] == [5, 3]
    assert len(loaded) == 1
    other = many_files.Task(tasks[0].options, {**settings, "checkpoint": "0"}, None, True)
    with pytest.raises(UsageError, match=r"^checkpoint was 0 at the start, and is [0-9a-f]{12}"):
        many_files.translate_file(other)
    assert visible(here / "out").keys() == {"a.txt", "c.txt"}


def test_a_file_that_has_vanished_has_failed_alone(training: Training, here: Path) -> None:
    (here / "out").mkdir()
    options = many_options(training.run, here, threads=1)
    settings = many_files.describe_translator(options)
    task = many_files.Task(of_file(options, here / "in" / "gone.txt"), settings, None, False)
    result = many_files.translate_file(task)
    assert result.state is None
    assert result.messages[0].startswith(f"error: {here / 'in' / 'gone.txt'}: there is no such")


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_file_that_changes_while_it_is_translated_has_failed(
    training: Training, here: Path, is_shared: bool
) -> None:
    (here / "out").mkdir()
    path = here / "in" / "c.txt"
    options = many_options(training.run, here, threads=1)
    settings = many_files.describe_translator(options)
    task = many_files.Task(of_file(options, path), settings, None, is_shared)
    result = many_files.translate_file(task, Watcher(lambda _: path.write_text("1 2 3\n")))
    assert result.state is None
    assert result.messages == (f"error: {path}: has changed in the meantime; translate it again",)
    assert not (here / "out" / "c.txt").exists()


@pytest.mark.parametrize("name", ["c.txt", "x.po"])
def test_files_saved_by_others_while_workers_translate_are_kept(
    training: Training, here: Path, name: str
) -> None:
    (here / "out").mkdir()
    (here / "in" / "x.po").write_text(PO)
    path = here / "out" / name
    options = many_options(training.run, here, threads=1)
    settings = many_files.describe_translator(options)
    task = many_files.Task(of_file(options, here / "in" / name), settings, None, is_shared=True)

    def save(_: int) -> None:
        path.write_text("someone's\n")

    with pytest.raises(OutputError, match="was changed by someone else") as caught:
        many_files.translate_file(task, Watcher(save))
    assert path.read_text() == "someone's\n"
    new = path.with_name(f"{name}.new")
    assert str(caught.value).endswith(f"the output is in {new}")
    # Another worker may have written the same bytes. A replaced file keeps its mode.
    path.chmod(0o640)
    for text in ("older\n", new.read_text()):
        path.write_text(text)
        assert many_files.translate_file(task).state is not None
        assert path.read_bytes() == new.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o640
    assert visible(here / "out").keys() == {name, new.name}


def test_a_memory_that_has_changed_is_read_again(tmp_path: Path) -> None:
    here = tmp_path
    (here / "x.po").write_text('msgid "a"\nmsgstr ""\n')
    document = read_document(here / "x.po", ("de", "en"), True)
    memory = here / "tm.tsv"
    options = DocumentOptions(memory=[memory])
    memory.write_text("a\t0\n")
    kept = read_memory(options, document)
    assert kept is not None
    assert read_memory(options, document) is kept
    memory.write_text("a\t1\n")
    again = read_memory(options, document)
    assert again is not None
    assert again.find("a") == Match("a", "1", 100)


def test_a_name_that_leaves_no_room_for_an_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"its name is too long to add suffixes"):
        check_directory(tmp_path / "out", [tmp_path / "a.txt", tmp_path / ("b" * 230)])
    check_directory(tmp_path / "out", [tmp_path / "a.txt"])

"""How ``translate`` handles many files: this process or a cluster's workers translate each file.

A worker keeps its model loaded. It returns what the main process should record and report.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from transformer_cli.base.errors import CorpusError, InputError, UsageError, WorkerError
from transformer_cli.base.files import sha256
from transformer_cli.base.messages import bar, log
from transformer_cli.base.text_files import compressor
from transformer_cli.base.workers import SerialExecutor, find_executor
from transformer_cli.base.writing import claim, whole_file
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import InputFormat, RowFormat, load_translator, open_format
from transformer_cli.extensions.many_files.output_directory import (
    FileState,
    OutputDirectory,
    check_directory,
    find_inputs,
    open_directory,
)
from transformer_cli.inference.engine import SearchEngine, describe_versions
from transformer_cli.inference.output import Output
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher
from transformer_cli.runs.directory import RunDirectory, check_outside_runs

Options = TypeVar("Options", bound=CommandOptions | ExtraOptions)


@dataclass(frozen=True)
class Task:
    """The task of translating one file, in this process or in a worker."""

    options: TranslateOptions  # for this file, with absolute paths
    settings: dict[str, str]  # settings of the translator, from ``describe_translator``
    known: FileState | None  # the record of an earlier translation
    is_shared: bool  # whether another process may have this task at the same time


@dataclass(frozen=True)
class Result:
    """The result of a ``Task``: what to record, and what to report to the user."""

    output: Path
    state: FileState | None = None  # None: it failed
    lines: int = 0
    messages: tuple[str, ...] = ()
    is_new: bool = True  # False: the translation already existed, with the same bytes


# --- all files ------------------------------------------------------------------------------------


class ManyFiles(InputFormat):
    """The input format for a directory or a filename pattern; each of its files is translated."""

    def translate(self, given: TranslateOptions) -> None:
        inputs = find_inputs(given.input_)
        forms = _check(given, inputs)
        options = _with_absolute_paths(given)
        for form in forms:
            prefer = getattr(form, "prefer_engine", None)
            options = prefer(options) if prefer else options
        of_all: dict[str, str] = {"errors": given.errors}  # what affects all translations, by name
        for extra in given.extras:
            of_all |= extra.fingerprint()
        open_executor = find_executor(options.extras, options.output, unasked=False)
        is_shared = open_executor is not SerialExecutor
        with ExitStack() as stack:
            executor = stack.enter_context(open_executor())
            if is_shared:
                threads = options.threads or getattr(executor, "threads", None)
                options = replace(options, threads=threads)
            settings = executor.submit(describe_translator, options).result()
            of_all |= settings
            if given.engine == "auto":
                # Both engines write the same text here, and adding a document may change the
                # choice.
                of_all |= describe_versions("ctranslate2", "torch")
                of_all.pop("engine", None)
            directory = stack.enter_context(open_directory(options.output, of_all))
            tasks = []
            for path, form in zip(inputs, forms, strict=True):
                output = options.output / _output_name(form, path)
                file = replace(options, input_=path.absolute(), output=output)
                tasks.append(Task(file, settings, directory.begin(output), is_shared))
            directory.write()
            _translate_all(tasks, executor, directory)


def _check(given: TranslateOptions, inputs: Sequence[Path]) -> list[InputFormat]:
    """Return the format of each file; raise UsageError early if the options do not suit a file."""
    for name, _ in given.marked("writes"):
        of_one = "is for one file, but -i names many files; leave it out"
        raise UsageError(f"translate: {name} {of_one}")
    check_outside_runs(given.output / "file", "-o", given.models)
    check_directory(given.output, inputs)
    forms: dict[Path, InputFormat] = {}
    names: dict[str, Path] = {}
    for path in inputs:
        file = replace(given, input_=path, output=given.output / path.name)
        try:
            forms[path] = open_format(file)
        except UsageError as error:
            others = (each for each in inputs if each.suffix != path.suffix)
            documents = (each for each in others if replace(given, input_=each).kind is not None)
            kind = next((each.suffix for each in documents), ".txt")
            advice = f"; or exclude it with a pattern, such as -i '{path.parent}/*{kind}'"
            raise UsageError(f"{error}{advice if len(inputs) > 1 else ''}") from None
        for each in file.extras:
            getattr(each, "check_one", each.check)(file)
        name = _output_name(forms[path], path)
        if (other := names.setdefault(name, path)) != path:
            raise UsageError(f"{other} and {path}: both would become {name}; rename one of them")
    return list(forms.values())


def _output_name(form: InputFormat, path: Path) -> str:
    named = getattr(form, "output_name", None)
    return str(named(path)) if named else path.name


def _with_absolute_paths(options: TranslateOptions) -> TranslateOptions:
    """Return options with absolute paths, because workers have other working directories."""
    checkpoint = options.checkpoint
    is_name = (RunDirectory(options.run).checkpoints / checkpoint).is_dir()
    if checkpoint not in ("best", "last", "average") and not is_name:
        checkpoint = str(Path(checkpoint).absolute())
    extras = tuple(_absolute(each) for each in options.extras)
    return replace(_absolute(options), input_=options.input_, checkpoint=checkpoint, extras=extras)


def _absolute(options: Options) -> Options:
    """Return a copy of the options in which all paths are absolute."""
    changes: dict[str, Any] = {}
    for each in fields(options):
        value = getattr(options, each.name)
        if isinstance(value, Path) and str(value) != "-":
            changes[each.name] = value.absolute()
        elif isinstance(value, list) and value and isinstance(value[0], Path):
            changes[each.name] = [path.absolute() for path in value]
    return replace(options, **changes)


def _translate_all(tasks: Sequence[Task], executor: Executor, directory: OutputDirectory) -> None:
    """Run the tasks, record those that are complete, and log the messages about each file."""
    done = known = failed = 0

    def count() -> str:
        there = f"; already there: {known:,}" if known else ""
        return f"translated {done:,} of {len(tasks):,} files{there}"

    try:
        with bar(None, "translating", " lines") as shown:
            for result in _run(executor, tasks, Watcher(shown.update)):
                if result.state is None:
                    failed += 1
                else:
                    done += result.is_new
                    known += not result.is_new
                    directory.note(result.output.name, result.state)
                for message in result.messages:
                    log(message)
                shown.set_postfix_str(f"{known + done + failed:,} of {len(tasks):,} files")
    except BaseException:
        log(f"{count()}; run the same command again to resume")
        raise
    log(count())
    if failed:
        raise InputError(
            f"{failed:,} of {len(tasks):,} files could not be translated; fix them and run the "
            "same command again"
        )


def _run(executor: Executor, tasks: Sequence[Task], watcher: Watcher) -> Iterator[Result]:
    """Yield results as they arrive; tasks on workers report progress only after each file."""
    waiting: dict[Future[Result], TranslateOptions] = {}
    for task in tasks:
        if not task.is_shared:
            yield executor.submit(translate_file, task, watcher).result()
        else:
            waiting[executor.submit(translate_file, task)] = task.options
    for future in as_completed(waiting):
        try:
            result = future.result()
        except WorkerError as error:  # a file may take more memory than any worker has
            options = waiting[future]
            result = Result(options.output, messages=(f"error: {options.input_}: {error}",))
        watcher.progress(result.lines)
        yield result


# --- one file, in any process ---------------------------------------------------------------------

_lock = Lock()  # a model translates one file at a time, even if a worker has several threads
_loaded: tuple[str, TextTranslator[SearchEngine]] | None = None
"""The options that this process last loaded a translator with, as text, and that translator."""


def describe_translator(options: TranslateOptions) -> dict[str, str]:
    """Load a new translator; return a dict of the settings that affect its translations."""
    with _lock:
        return _load(options).settings_fingerprint


def translate_file(task: Task, watcher: Watcher = NOBODY) -> Result:
    """Translate a file; if the file itself is at fault, return the error in the result."""
    with _lock:
        translator = _find_translator(task)
        try:
            return _translate(task, translator, watcher)
        except (CorpusError, InputError) as error:
            return Result(task.options.output, messages=(f"error: {error}",))


def _find_translator(task: Task) -> TextTranslator[SearchEngine]:
    """Return the loaded translator if it suits the task; otherwise, load the one that does."""
    if _loaded is not None:
        key, translator = _loaded
        if key == _key(task.options) and translator.settings_fingerprint == task.settings:
            return translator
    translator = _load(task.options)
    found = translator.settings_fingerprint
    for key in sorted({*found, *task.settings}):
        was, now = task.settings.get(key, "none"), found.get(key, "none")
        if was != now:
            raise UsageError(
                f"{key} was {was[:12]} at the start, and is {now[:12]} now: the run was trained "
                "further, or workers differ; set --checkpoint, --device and --precision"
            )
    return translator


def _load(options: TranslateOptions) -> TextTranslator[SearchEngine]:
    global _loaded
    _loaded = None  # otherwise two models would be in memory
    translator = load_translator(options)
    _loaded = _key(options), translator
    return translator


def _key(options: TranslateOptions) -> str:
    return repr(replace(options, input_=Path(), output=Path()))


def _translate(task: Task, translator: TextTranslator[SearchEngine], watcher: Watcher) -> Result:
    path, output, known = task.options.input_, task.options.output, task.known
    if not path.is_file():
        raise CorpusError(f"{path}: there is no such file; check -i")
    before = sha256(path)

    def check_unchanged() -> None:
        # A stopped worker must not replace a new translation with an old one either.
        if not path.is_file() or sha256(path) != before:
            raise CorpusError(f"{path}: has changed in the meantime; translate it again")

    with claim(output):
        if known is not None and output.is_file():
            if sha256(output) != known.output_sha256:
                raise InputError(
                    f"{output}: was changed after it was translated, so it is kept; move it away "
                    "to translate its source again"
                )
            if before == known.input_sha256:
                return Result(output, known, is_new=False)
        written, lines, messages = _write(task, translator, watcher, check_unchanged)
    return Result(output, FileState(input_sha256=before, output_sha256=written), lines, messages)


def _write(
    task: Task,
    translator: TextTranslator[SearchEngine],
    watcher: Watcher,
    check_unchanged: Callable[[], None],
) -> tuple[str, int, tuple[str, ...]]:
    """Write a file's translation; return its SHA-256, the number of lines, and messages.

    A format without rows has a method ``translate_one`` that does the same. It must call
    ``check_unchanged`` just before it puts the translation in place.
    """
    options = task.options
    form: Any = open_format(options)
    if not isinstance(form, RowFormat):
        written: tuple[str, int, tuple[str, ...]]
        written = form.translate_one(options, translator, watcher, check_unchanged)
        return written
    long_lines: list[str] = []
    with (
        form.open(options, translator) as job,
        _shared_file(options.output) if task.is_shared else form.open_output(job) as file,
    ):
        watcher.progress(file.kept)
        watching = watcher._replace(on_long_line=long_lines.append)
        lines, messages = job.write(file.write, watching, file.kept)
        check_unchanged()
    if long_lines:
        others = f"; {len(long_lines) - 1:,} more lines are too long" if long_lines[1:] else ""
        messages = [f"{long_lines[0]}{others}", *messages]
    return file.sha256, lines, tuple(f"warning: {options.input_}: {each}" for each in messages)


@contextmanager
def _shared_file(path: Path) -> Iterator[Output]:
    """Open a file that replaces ``path`` once written; other workers may write the same meanwhile.

    A worker that counts as lost may still be running. So each worker writes a file of its own, and
    the last one to rename its file wins. Partial files are not resumed.
    """
    with whole_file(path, is_named=True) as temporary, FileIO(temporary, "w+") as file:
        output = Output(file, temporary, compressor(path))
        yield output
        output.finish()

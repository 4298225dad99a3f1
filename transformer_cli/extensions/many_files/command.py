"""What ``translate`` does with many files: each is a task, for this process or a cluster's workers.

A worker keeps the model that it has loaded, and gives back what is to be recorded and told.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from transformer_cli.base.errors import CorpusError, InputError, UsageError, WorkerError
from transformer_cli.base.files import sha256
from transformer_cli.base.locations import is_url
from transformer_cli.base.messages import bar, log
from transformer_cli.base.text_files import compressor
from transformer_cli.base.workers import SerialExecutor, find_executor
from transformer_cli.base.writing import claim, expect, find_version, whole_file
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import (
    InputFormat,
    RowFormat,
    Translating,
    count_lines,
    load_translator,
    open_format,
    open_output,
    watch,
    write_rows,
)
from transformer_cli.data.corpus import mtime_key_of
from transformer_cli.extensions.many_files.options import ManyFilesOptions
from transformer_cli.extensions.many_files.output_directory import (
    FileState,
    OutputDirectory,
    check_directory,
    file_key,
    find_inputs,
    open_directory,
)
from transformer_cli.inference.engine import SearchEngine, describe_versions
from transformer_cli.inference.output import Output, naming_output_errors
from transformer_cli.inference.translation import NOBODY, LongLine, Watcher
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory, check_outside_runs

Options = TypeVar("Options", bound=CommandOptions | ExtraOptions)


@dataclass(frozen=True)
class Task:
    """A file to translate."""

    options: TranslateOptions  # of this file, with absolute paths
    settings: dict[str, str]  # of the translator, as ``describe_translator`` returns them
    known: FileState | None  # what is recorded of an earlier translation
    is_shared: bool  # whether another process may have this task at the same time
    expected: str | None = None
    """The version of the output that may be replaced if ``is_shared``; None: there is none."""


@runtime_checkable
class WholeFormat(Protocol):
    """A kind of input that translates a file of many itself, as it is not made of rows."""

    def translate_one(
        self,
        given: TranslateOptions,
        translator: TextTranslator[SearchEngine],
        watcher: Watcher,
        check_unchanged: Callable[[], None],
    ) -> tuple[str, int, tuple[str, ...]]:
        """Call ``check_unchanged`` before the translation appears; return a ``TranslatedFile``."""


class TranslatedFile(NamedTuple):
    """What was written of a file."""

    sha256: str
    lines: int
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What has become of a task."""

    output: Path
    state: FileState | None = None  # None: it has failed
    lines: int = 0
    messages: tuple[str, ...] = ()
    is_new: bool = True  # False: the translation was there, and is of the same bytes


# --- all files ------------------------------------------------------------------------------------


class ManyFiles(InputFormat):
    """A directory, or a pattern of names: each file is translated."""

    def translate(self, given: TranslateOptions) -> None:
        inputs = find_inputs(given.input_)
        _translate_files(given, inputs, _check(given, inputs))


def _check(given: TranslateOptions, inputs: Sequence[Path]) -> list[InputFormat]:
    """Make sure, before long work, that the options go with these files; return their formats."""
    given.check_search()
    for problem in given.extra(ManyFilesOptions).find_problems(given):
        raise UsageError(f"translate: {problem}")
    check_outside_runs(given.output / "file", "-o", given.models)
    check_directory(given.output, inputs)
    forms = []
    for path in inputs:
        file = replace(given, input_=path, output=given.output / path.name)
        try:
            form = open_format(file)
        except UsageError as error:
            others = (each for each in inputs if each.suffix != path.suffix)
            documents = (each for each in others if replace(given, input_=each).kind is not None)
            kind = next((each.suffix for each in documents), ".txt")
            advice = f"; or leave it out by a pattern, such as -i '{path.parent}/*{kind}'"
            raise UsageError(f"{error}{advice if len(inputs) > 1 else ''}") from None
        for each in file.extras:
            # What extensions have to say of options for one of many files.
            if check := getattr(each, "check_one", None):
                check(file)
        forms.append(form)
    names: dict[str, Path] = {}
    for path, form in zip(inputs, forms, strict=True):
        if (other := names.setdefault(name := _output_name(form, path), path)) != path:
            raise UsageError(f"{other} and {path}: both would become {name}; rename one of them")
    return forms


def _output_name(form: InputFormat, path: Path) -> str:
    """Return the name of a file's translation in the directory."""
    named = getattr(form, "output_name", None)
    return str(named(path)) if named else path.name


def _translate_files(
    options: TranslateOptions, inputs: Sequence[Path], forms: Sequence[InputFormat]
) -> None:
    options = _with_absolute_paths(options)
    is_open = options.engine == "auto"
    for form in forms:
        prefer = getattr(form, "prefer_engine", None)
        options = prefer(options) if prefer else options
    of_all: dict[str, str] = {"errors": options.errors}
    if options.n_best_written is not None:
        of_all["n_best"] = str(options.n_best_written)
    for each in options.extras:
        of_all |= each.fingerprint()
    open_executor = find_executor(options.extras, options.output, unasked=False)
    is_shared = open_executor is not SerialExecutor
    with ExitStack() as stack:
        executor = stack.enter_context(open_executor())
        if is_shared:
            options = replace(
                options, threads=options.threads or getattr(executor, "threads", None)
            )
        settings = executor.submit(describe_translator, options).result()
        # Either engine writes the same text here, and adding a document may change the choice.
        of_all |= settings
        if is_open:
            of_all |= describe_versions("ctranslate2", "torch")
            of_all.pop("engine", None)
        directory = stack.enter_context(open_directory(options.output, of_all))
        of_files = [
            replace(
                options, input_=path.absolute(), output=options.output / _output_name(form, path)
            )
            for path, form in zip(inputs, forms, strict=True)
        ]
        whole = directory.find_whole([(each.input_, each.output) for each in of_files])
        directory.begin([each.output for each in of_files if each.output not in whole])
        tasks = []
        for file in of_files:
            if file.output not in whole:
                known, expected = directory.state(file.output.name), None
                if is_shared and not is_url(options.output):
                    # If it is not known, there is none, or a lost worker has made it.
                    expected = known.output_sha256 if known else find_version(file.output)
                tasks.append(Task(file, settings, known, is_shared, expected))
        if count := _count_directories(options):
            what = "subdirectories are" if count > 1 else "subdirectory is"
            log(f"{count:,} {what} not translated; to translate one, name it with -i")
        _translate_all(tasks, executor, directory, len(inputs))


def _count_directories(options: TranslateOptions) -> int:
    """Return how many directories with files are in that of the input, the output aside."""
    if not options.input_.is_dir():
        return 0
    output = options.output.resolve()
    return sum(
        path.is_dir() and path.resolve() != output and any(path.glob("[!.]*"))
        for path in options.input_.glob("[!.]*")
    )


def _with_absolute_paths(options: TranslateOptions) -> TranslateOptions:
    """Return the options as a worker needs them, which has another working directory."""
    checkpoint = options.checkpoint
    is_name = (RunDirectory(options.run).checkpoints / checkpoint).is_dir()
    if checkpoint not in ("best", "last", "average") and not is_name:
        checkpoint = str(Path(checkpoint).absolute())
    extras = tuple(_absolute(each) for each in options.extras)
    return replace(_absolute(options), input_=options.input_, checkpoint=checkpoint, extras=extras)


def _absolute(options: Options) -> Options:
    """Return options of which each path is absolute."""
    changes: dict[str, Any] = {}
    for each in fields(options):
        value = getattr(options, each.name)
        if isinstance(value, Path) and str(value) != "-":
            changes[each.name] = value.absolute()
        elif isinstance(value, list) and value and isinstance(value[0], Path):
            changes[each.name] = [path.absolute() for path in value]
    return replace(options, **changes)


def _translate_all(
    tasks: Sequence[Task], executor: Executor, directory: OutputDirectory, total: int
) -> None:
    """Run the tasks, record what is whole, and tell what there is to tell in the files' order."""
    done = failed = 0
    known = total - len(tasks)

    def count() -> str:
        there = f"; already there: {known:,}" if known else ""
        return f"translated {done:,} of {total:,} files{there}"

    untold = deque(task.options.output for task in tasks)
    messages: dict[Path, tuple[str, ...]] = {}
    try:
        with bar(None, "translating", " lines") as lines_bar:
            if not lines_bar.disable:
                lines_bar.total = _count_lines(tasks)
            for result in _run(executor, tasks, watch(lines_bar)):
                if result.state is None:
                    failed += 1
                else:
                    done += result.is_new
                    known += not result.is_new
                    directory.note(result.output.name, result.state)
                messages[result.output] = result.messages
                while untold and untold[0] in messages:
                    for message in messages.pop(untold.popleft()):
                        log(message)
                lines_bar.set_postfix_str(f"{known + done + failed:,} of {total:,} files")
    except BaseException:
        log(f"{count()}; run the same command again to go on")
        raise
    log(count())
    if failed:
        raise InputError(
            f"{failed:,} of {total:,} files could not be translated; fix them and run the same "
            "command again"
        )


def _count_lines(tasks: Sequence[Task]) -> int | None:
    """Return how many lines the files have; None: that is not known before they are read."""
    forms = [(task.options, open_format(task.options)) for task in tasks]
    counts = [
        count_lines(options, form) if isinstance(form, RowFormat) else None
        for options, form in forms
    ]
    return None if None in counts else sum(count or 0 for count in counts)


def _run(executor: Executor, tasks: Sequence[Task], watcher: Watcher) -> Iterator[Result]:
    """Yield results as they come; of what runs elsewhere, progress is by whole files."""
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

_lock = Lock()  # a model translates one file at a time, however many threads a worker has
_loaded: tuple[str, TextTranslator[SearchEngine]] | None = None
"""The translator that this process keeps, and the options that it was loaded by."""


def describe_translator(options: TranslateOptions) -> dict[str, str]:
    """Load a translator again; return the settings that decide its translations, by name."""
    with _lock:
        return _load(options).settings_fingerprint


def translate_file(task: Task, watcher: Watcher = NOBODY) -> Result:
    """Translate a file; a mistake in it is a result."""
    with _lock:
        translator = _find_translator(task)
        try:
            return _translate(task, translator, watcher)
        except (CorpusError, InputError) as error:
            return Result(task.options.output, messages=(f"error: {error}",))


def _find_translator(task: Task) -> TextTranslator[SearchEngine]:
    """Return the loaded translator if it is the right one, and load it otherwise."""
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
                f"{key} was {was[:12]} when this began, and is {now[:12]} now: the run was trained "
                "further, or workers differ; name --checkpoint, --device and --precision"
            )
    return translator


def _load(options: TranslateOptions) -> TextTranslator[SearchEngine]:
    global _loaded
    _loaded = None  # or there would be two models in memory
    translator = load_translator(options)
    _loaded = _key(options), translator
    return translator


def _key(options: TranslateOptions) -> str:
    return repr(replace(options, input_=Path(), output=Path()))


def _translate(task: Task, translator: TextTranslator[SearchEngine], watcher: Watcher) -> Result:
    options, known = task.options, task.known

    def check_unchanged() -> None:
        if file_key(options.input_) != before:
            # Nor may a worker that was stopped put an old translation over a new one.
            raise CorpusError(f"{options.input_}: has changed meanwhile; translate it again")

    with _guard(task):
        # Before it is read, so that what changes it from here on is noticed the next time.
        before, input_key = file_key(options.input_), mtime_key_of([options.input_])
        if not before:
            raise CorpusError(f"{options.input_}: there is no such file; check -i")
        input_sha256 = sha256(options.input_)
        is_new = not (known and known.is_of(input_sha256, options.output))
        if known and not is_new:
            translated = TranslatedFile(known.output_sha256, 0, ())
        else:
            translated = _translate_one(task, translator, watcher, check_unchanged)
        state = FileState(
            input_key=input_key,
            input_sha256=input_sha256,
            output_key=file_key(options.output),
            output_sha256=translated.sha256,
        )
        return Result(options.output, state, translated.lines, translated.messages, is_new)


@dataclass
class _LongLines:
    """Counts the lines of a file that are too long to be translated as one."""

    count: int = 0
    first: str = ""

    def __call__(self, long: LongLine) -> None:
        self.count += 1
        self.first = self.first or str(long)

    def summary(self) -> list[str]:
        """Return a line about them if there are any."""
        others = f"; {self.count - 1:,} more lines are too long" if self.count > 1 else ""
        return [self.first + others] if self.count else []


def _translate_one(
    task: Task,
    translator: TextTranslator[SearchEngine],
    watcher: Watcher,
    check_unchanged: Callable[[], None],
) -> TranslatedFile:
    """Write the translation of a file; call ``check_unchanged`` before it appears."""
    options = task.options
    form = open_format(options)
    if isinstance(form, WholeFormat):
        return TranslatedFile(*form.translate_one(options, translator, watcher, check_unchanged))
    assert isinstance(form, RowFormat)
    long_lines = _LongLines()
    with form.open_rows(options) as (rows, _):
        job = Translating(options, translator, rows, form)
        is_shared = task.is_shared or is_url(options.output)
        with _shared_output(options.output) if is_shared else open_output(job) as file:
            watcher.progress(file.kept)
            watching = watcher._replace(on_long_line=long_lines)
            lines, messages = write_rows(job, file.write, watching, file.kept)
            check_unchanged()
    told = [*long_lines.summary(), *messages]
    warnings = tuple(f"warning: {options.input_}: {message}" for message in told)
    return TranslatedFile(file.sha256, lines, warnings)


@contextmanager
def _shared_output(path: Path) -> Iterator[Output]:
    """Write ``path``, which others may be writing at the same time, with the same bytes.

    A worker that was held for lost may go on, on another machine: so each writes a file of its own,
    and the last to rename it, or to upload it, wins. There is nothing to resume.
    """
    with whole_file(path, is_named=True) as partial:
        with naming_output_errors(path):
            file = FileIO(partial, "w+")
        with file:
            output = Output(file, partial, compressor(path))
            yield output
            output.finish()


def _guard(task: Task) -> AbstractContextManager[None]:
    """Keep what others save in the place of the translation while it is made."""
    output = task.options.output
    if not task.is_shared:
        return claim(output)
    if is_url(output):  # the same bytes are another version there
        return nullcontext()
    return expect(output.resolve(), task.expected)

"""What ``translate`` does with many files: each is a task, for this process or a cluster's workers.

A worker keeps the model that it has loaded, and gives back what is to be recorded and told.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from transformer_cli.base.artifact import mtime_key_of
from transformer_cli.base.errors import CorpusError, InputError, UsageError, WorkerError
from transformer_cli.base.files import sha256
from transformer_cli.base.locations import is_url
from transformer_cli.base.ranks import Ranks
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.base.writing import claim, expect, find_version
from transformer_cli.cli.display import bar, log
from transformer_cli.cli.options import find_executor
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import (
    Translating,
    count_lines,
    load_translator,
    open_output,
    open_rows,
    watch,
    write_rows,
)
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.documents.command import (
    fill_document,
    open_document,
    prefer_alignments,
    read_memory,
    write_document,
)
from transformer_cli.extensions.documents.document import format_of
from transformer_cli.inference.engine import SearchEngine, describe_versions
from transformer_cli.inference.output_directory import (
    FileState,
    OutputDirectory,
    file_key,
    find_inputs,
    open_directory,
)
from transformer_cli.inference.stream import NOBODY, Watcher
from transformer_cli.inference.translator import LongLine, TextTranslator
from transformer_cli.runs.directory import RunDirectory


@dataclass(frozen=True)
class Task:
    """A file to translate."""

    options: TranslateOptions  # of this file, with absolute paths
    settings: dict[str, str]  # of the translator, as ``describe_translator`` returns them
    known: FileState | None  # what is recorded of an earlier translation
    is_shared: bool  # whether another process may have this task at the same time
    memory: str = ""  # the sums of the memory's files
    expected: str | None = None
    """The version of the output that may be replaced if ``is_shared``; None: there is none."""


@dataclass(frozen=True)
class Result:
    """What has become of a task."""

    output: Path
    state: FileState | None = None  # None: it has failed
    lines: int = 0
    messages: tuple[str, ...] = ()
    is_new: bool = True  # False: the translation was there, and is of the same bytes


# --- all files ------------------------------------------------------------------------------------


def translate_files(options: TranslateOptions) -> None:
    """Check the options, and translate each file whose translation is not there yet."""
    inputs = find_inputs(options.input_)
    options.check_many(Ranks.from_env(), inputs)
    options = _with_absolute_paths(options)
    is_open = options.engine == "auto"
    if any(map(format_of, inputs)):
        options = prefer_alignments(options)
    of_all: dict[str, str] = {"errors": options.errors}
    for name in ("n_best_written", "src_column", "src_field", "no_fuzzy", "fallback"):
        if (value := getattr(options, name)) not in (None, False):
            of_all[name.removesuffix("_written")] = str(value)
    if memory := _sum_memory(options.memory or ()):
        of_all["memory"] = memory
    opening = find_executor(options, options.output)
    is_shared = opening is not None
    with ExitStack() as stack:
        executor: Executor = stack.enter_context(opening()) if opening else SerialExecutor()
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
        of_files = [options.of_file(path.absolute()) for path in inputs]
        whole = directory.find_whole([(each.input_, each.output) for each in of_files])
        directory.begin([each.output for each in of_files if each.output not in whole])
        tasks = [
            Task(each, settings, directory.state(each.output.name), is_shared, memory)
            for each in of_files
            if each.output not in whole
        ]
        if is_shared and not is_url(options.output):
            tasks = [replace(task, expected=_find_expected(task)) for task in tasks]
        if count := _count_directories(options):
            what = "subdirectories are" if count > 1 else "subdirectory is"
            log(f"{count:,} {what} not translated; to translate one, name it with -i")
        _translate_all(tasks, executor, directory, len(inputs))


def _find_expected(task: Task) -> str | None:
    """Return the version of a task's output that a worker may replace."""
    if task.known is not None:
        return task.known.output_sha256
    return find_version(task.options.output)  # None, or a lost worker has made it


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
    return replace(
        options,
        run=options.run.absolute(),
        output=options.output.absolute(),
        checkpoint=checkpoint,
        extras=tuple(each.absolute() for each in options.extras),
        ensemble=[path.absolute() for path in options.ensemble or ()],
        memory=[path.absolute() for path in options.memory or ()],
    )


def _sum_memory(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a memory's files; CorpusError: one cannot be read."""
    return " ".join(
        sha256(path)
        if path.is_file()
        else open_source(source_of_file(path), "", "").source_sha256()
        for path in paths
    )


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
    is_text = all(task.options.document is None for task in tasks)
    counts = [count_lines(task.options) for task in tasks] if is_text else [None]
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
    """Load a translator anew; return the settings that decide its translations, by name."""
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

    def result(output_sha256: str, lines: int = 0, messages: tuple[str, ...] = ()) -> Result:
        state = FileState(
            input_key=input_key,
            input_sha256=input_sha256,
            output_key=file_key(options.output),
            output_sha256=output_sha256,
        )
        return Result(options.output, state, lines, messages)

    def check_unchanged() -> None:
        if file_key(options.input_) != before:
            # Nor may a worker that was stopped put an old translation over a new one.
            raise CorpusError(f"{options.input_}: has changed meanwhile; translate it again")

    with _guard(task), open_rows(options) as (rows, _):
        # Before it is read, so that what changes it from here on is noticed the next time.
        before, input_key = file_key(options.input_), mtime_key_of([options.input_])
        input_sha256 = sha256(options.input_)
        if known is not None and known.is_of(input_sha256, options.output):
            return replace(result(known.output_sha256), is_new=False)
        if options.document is not None:
            document = open_document(options)
            memory = read_memory(options, document, task.memory)
            filled = fill_document(options, document, translator, memory, watcher)
            check_unchanged()
            write_document(options, filled)
            told = tuple(f"{options.input_}: {message}" for message in filled.summary())
            return result(sha256(options.output), len(filled.fillings), told)
        job, long_lines = Translating(options, translator, rows), _LongLines(options.line_offset)
        with open_output(job, task.is_shared) as file:
            watcher.progress(file.kept)
            written = write_rows(job, file.write, watcher, long_lines, file.kept)
            check_unchanged()
    messages = (*long_lines.summary(), *written.summary())
    warnings = tuple(f"warning: {options.input_}: {message}" for message in messages)
    return result(file.sha256, written.lines, warnings)


def _guard(task: Task) -> AbstractContextManager[None]:
    """Keep what others save in the place of the translation while it is made."""
    output = task.options.output
    if not task.is_shared:
        return claim(output)
    if is_url(output):  # the same bytes are another version there
        return nullcontext()
    return expect(output.resolve(), task.expected)


@dataclass
class _LongLines:
    """Counts the lines of a file that are too long to be translated as one."""

    offset: int  # what to add to their numbers
    count: int = 0
    first: str = ""

    def __call__(self, long: LongLine) -> None:
        self.count += 1
        self.first = self.first or str(replace(long, line=long.line + self.offset))

    def summary(self) -> list[str]:
        """Return a line about them if there are any."""
        others = f"; {self.count - 1:,} more lines are too long" if self.count > 1 else ""
        return [self.first + others] if self.count else []

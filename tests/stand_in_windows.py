"""Linux, as near to Windows as a process can make it for what runs in it.

Run as a script it is a program that takes command lines, as JSON, and runs each by
``transformer_cli.cli.main`` in this one process; their exit codes go into a file.

- transformer_cli imports no module that Windows has not; ``os`` and ``signal`` lack what they lack
  there. Other packages were imported before, as their own versions for Windows are not here.
- What is open or mapped in this process is neither renamed, replaced nor deleted, and a rename
  replaces nothing.
- Text files are cp1252 with CRLF where nothing else is asked for. Directories cannot be opened.
"""

import builtins
import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HIDDEN_MODULES = {"fcntl", "resource", "termios", "pwd", "grp", "tty", "pty"}
HIDDEN_IN_OS = (
    *("fork", "forkpty", "setsid", "killpg", "mkfifo", "sched_getaffinity", "statvfs"),
    *("getuid", "geteuid", "getgid", "getegid", "pread", "pwrite"),
    *("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY"),
)
HIDDEN_IN_SIGNAL = (
    *("SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGQUIT"),
    *("alarm", "pthread_sigmask", "setitimer"),
)
SIGBREAK = 21  # SIGTTIN to Linux
_BEFORE = (
    *("filelock", "numpy", "plotly", "psutil", "sacrebleu.metrics", "sacremoses", "tqdm", "typer"),
    *("torch", "torch._dynamo"),
    *("spacy.lang.de", "spacy.lang.en", "spacy.lang.xx"),
    *("tensorboard.compat.proto.event_pb2", "tensorboard.summary.writer.record_writer"),
)


def become_windows() -> None:
    """Make this process as near to Windows as it can be."""
    for name in _BEFORE:
        import_module(name)
    _hide_modules()
    for name in HIDDEN_IN_OS:
        delattr(os, name)
    for name in HIDDEN_IN_SIGNAL:
        delattr(signal, name)
    signal.SIGBREAK = SIGBREAK  # type: ignore[attr-defined]
    signal.CTRL_BREAK_EVENT = SIGBREAK  # type: ignore[attr-defined]
    subprocess.CREATE_NEW_PROCESS_GROUP = 0  # type: ignore[attr-defined]
    _guard_open_files()
    _open_as_windows()
    import psutil

    memory = psutil.Process().memory_info()
    peak = SimpleNamespace(rss=memory.rss, peak_wset=memory.rss)
    psutil.Process.memory_info = lambda self: peak  # type: ignore[assignment, method-assign, return-value]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    os.link = _refuse_to_link  # not every file system has links
    os.kill = _refuse_to_kill  # a signal of 0 kills there
    sys.platform = "win32"


def _refuse_to_link(src: Any, dst: Any, **options: Any) -> None:
    raise OSError(1, "Incorrect function", str(src))


def _refuse_to_kill(process: int, number: int) -> None:
    raise AssertionError(f"os.kill({process}, {number})")


def _hide_modules() -> None:
    import_ = builtins.__import__

    def import_for_windows(name: str, globals: Any = None, *rest: Any, **others: Any) -> Any:
        importer = str((globals or {}).get("__name__"))
        if name in HIDDEN_MODULES and importer.partition(".")[0] == "transformer_cli":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return import_(name, globals, *rest, **others)

    builtins.__import__ = import_for_windows


def _open_paths() -> Iterator[str]:
    """Yield the paths of all files that are open or mapped in this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the directory itself
            yield str(entry.readlink())
    with _open("/proc/self/maps") as maps:
        yield from (f"/{line.rstrip().partition('/')[2]}" for line in maps if "/" in line)


_open = io.open


def _refuse_if_open(path: Any) -> None:
    real = os.path.realpath(path)
    for each in _open_paths():
        if each == real or each.startswith(f"{real}/"):
            raise PermissionError(13, "The process cannot access the file: it is in use", str(path))


def _guard_open_files() -> None:
    def guard(name: str, replaces: bool = True) -> None:
        function: Callable[..., Any] = getattr(os, name)

        def guarded(path: Any, *target: Any, **options: Any) -> Any:
            _refuse_if_open(path)
            for each in target:
                if os.path.lexists(each) and (not replaces or Path(each).is_dir()):
                    raise FileExistsError(17, "Cannot create a file that exists", str(each))
                _refuse_if_open(each)
            return function(path, *target, **options)

        setattr(os, name, guarded)

    guard("rename", replaces=False)
    for name in ("replace", "unlink", "remove", "rmdir"):
        guard(name)


def _open_as_windows() -> None:
    os_open = os.open

    def open_file(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        names = ("buffering", "encoding", "errors", "newline", "closefd", "opener")
        options |= dict(zip(names, rest, strict=False))
        if "b" not in mode:
            if options.get("encoding") in (None, "locale"):
                options["encoding"] = "cp1252"
            if options.get("newline") is None and mode[0] in "wax":
                options["newline"] = "\r\n"
        return _open(file, mode, **options)

    def open_no_directory(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        return os_open(path, flags, *rest, **options)

    builtins.open = io.open = open_file
    os.open = open_no_directory


def run_all(command_lines: list[list[str]], codes: Path) -> None:
    """Run command lines of transformer-cli, and write their exit codes."""
    become_windows()
    from transformer_cli.cli import main

    ended: list[Any] = []
    for arguments in command_lines:
        sys.argv = ["transformer-cli", *arguments]
        print(f"--- {arguments}", file=sys.stderr, flush=True)
        try:
            main()
        except SystemExit as stop:
            ended.append(stop.code)
        gc.collect()  # each is a process of its own elsewhere
        codes.write_text(json.dumps(ended))


if __name__ == "__main__":
    run_all(json.loads(sys.argv[1]), Path(sys.argv[2]))

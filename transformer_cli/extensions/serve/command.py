"""The command ``transformer-cli serve``, which translates for programs and for a web page."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import (
    CommandOptions,
    argument,
    build_options,
    declared_by,
    flag,
    option,
)
from transformer_cli.cli.display import say
from transformer_cli.cli.translate import TranslateOptions

with lazy_imports():
    from transformer_cli.extensions.serve import guard, served, server

_PACKAGES = ("starlette", "uvicorn", "python_multipart", "sentencex", "py3langid")


@dataclass(frozen=True)
class AccessOptions(CommandOptions):
    """The options for the runs, and for who may send what."""

    heading = "Requests"
    runs: Annotated[list[Path], argument("RUN...", "Runs, each for another pair of languages.")]
    host: Annotated[str, option("ADDRESS", "Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, option("N", "Port to listen on; 0: any free one.", min=0, max=65_535)] = (
        5000
    )
    keys: Annotated[
        Path | None, option("FILE", "Ask for a key; FILE has lines NAME SHA256-OF-KEY.")
    ] = None
    open_: Annotated[bool, flag("Serve everyone who can reach ADDRESS.", "--open")] = False
    cors: Annotated[
        list[str] | None, option("ORIGIN", "Site whose pages may send requests; repeatable.")
    ] = None
    max_chars: Annotated[int, option("N", "Maximum characters in a request.", min=1)] = 10_000
    max_file: Annotated[int, option("MB", "Maximum size of a file.", min=1, max=64)] = 4
    queue: Annotated[int, option("N", "Maximum requests at a time.", min=1)] = 256
    timeout: Annotated[float, option("SECONDS", "Maximum time for a request.", min=0.1)] = 60.0
    log_texts: Annotated[bool, flag("Log texts and translations.", "--log-texts")] = False
    learn: Annotated[
        int | None, option("N", "Grow the run after N new corrections, 20 or more.", min=20)
    ] = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can send requests."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    def check(self) -> None:
        """Raise UsageError if options contradict each other, or a package is missing."""
        for package in _PACKAGES:
            import_extra(package, "serve", "serve")
        if not (self.is_local or self.keys or self.open_):
            problem = "others can reach it; add --keys FILE, or --open"
            raise UsageError(f"--host {self.host}: {problem}")
        if self.open_ and self.keys:
            raise UsageError("--open: serves everyone, but --keys does not; leave one of them out")
        for origin in self.cors or ():
            if re.fullmatch(r"[a-z][\w+.-]*://[^/\s*]+", origin) is None:
                raise UsageError(f"--cors {origin}: expected an origin such as https://example.org")


@dataclass(frozen=True)
class ServeOptions(options.HardwareOptions, AccessOptions):
    """All options of ``serve``."""

    heading = "Hardware"


@declared_by(ServeOptions)
def serve(given: ServeOptions) -> None:
    """Translate for other programs, and on a web page.

    Programs use the interface of LibreTranslate. The page is at the address that the command
    prints. Corrections from both apply at once, and are kept in RUN/served. Ctrl-C stops it.

    \b
    Example:
      transformer-cli serve runs/toy --learn 50
    """
    given.check()
    family = socket.AF_INET6 if ":" in given.host else socket.AF_INET
    try:
        listening = socket.create_server((given.host, given.port), family=family, backlog=1024)
    except OSError as error:
        problem = f"{error.strerror}; choose another --port or --host"
        raise UsageError(f"--host {given.host} --port {given.port}: {problem}") from error
    with listening, open_app(given) as app:
        host, port = listening.getsockname()[:2]
        say(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        served.freeze_objects()
        guard.run(guard.configure(app, given.timeout), listening)


@contextmanager
def open_app(given: ServeOptions) -> Iterator[Any]:
    """Open the runs; return the ASGI application that serves them."""
    hardware = {name: getattr(given, name) for name in ("device", "precision", "threads")}
    opened: dict[tuple[str, str], served.Served] = {}
    with ExitStack() as stack:
        for path in given.runs:
            run = path if path.name.strip(".") else path.resolve()
            translating = build_options(TranslateOptions, "translate", run=run, **hardware)
            one = stack.enter_context(served.open_run(translating, given.learn))
            languages = " to ".join(one.languages)
            if one.languages in opened:
                raise UsageError(f"{run}: another run translates {languages}, too; leave one out")
            opened[one.languages] = one
            log(f"{one.chain[-1]}: translates {languages}")
        yield server.Server(opened, given).app()

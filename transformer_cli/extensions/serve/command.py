"""The command ``transformer-cli serve``, which translates for programs and for a web page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, flag, option

with lazy_imports():
    from transformer_cli.extensions.serve import serving


@dataclass(frozen=True)
class AccessOptions(CommandOptions):
    """The options for the runs, and for who may send what."""

    heading = "Requests"
    runs: Annotated[list[Path], argument("RUN...", "Runs, each for another pair of languages.")]
    host: Annotated[str, option("ADDRESS", "Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, option("N", "Port to listen on; 0: one that is free.", min=0, max=65_535)
    ] = 5000
    keys: Annotated[
        Path | None, option("FILE", "Ask for a key; FILE has lines with NAME SHA256-OF-KEY.")
    ] = None
    open_: Annotated[bool, flag("Serve everyone who can reach ADDRESS.", "--open")] = False
    cors: Annotated[
        list[str] | None, option("ORIGIN", "Site whose pages may send requests; repeatable.")
    ] = None
    max_chars: Annotated[int, option("N", "Maximum characters in a request.", min=1)] = 10_000
    max_file: Annotated[int, option("MB", "Maximum size of a file.", min=1, max=64)] = 4
    queue: Annotated[int, option("N", "Maximum requests at a time.", min=1)] = 256
    timeout: Annotated[float, option("SECONDS", "Maximum time for a request.", min=1)] = 60.0
    log_texts: Annotated[bool, flag("Log texts and translations.", "--log-texts")] = False
    learn: Annotated[
        int | None, option("N", "Grow the run after N new corrections, 20 or more.", min=20)
    ] = None


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
    for package in ("starlette", "uvicorn", "python_multipart", "sentencex"):
        import_extra(package, "serve", "serve")
    if given.host not in serving.LOCAL and not (given.keys or given.open_):
        raise UsageError(f"--host {given.host}: others can reach it; add --keys FILE, or --open")
    if given.open_ and given.keys:
        raise UsageError("--open: serves everyone, but --keys does not; leave one of them out")
    serving.run_server(given)

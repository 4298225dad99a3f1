"""Opens what a server needs, and runs it."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import check_no_links
from transformer_cli.base.messages import log
from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.display import say
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.serve.corrections import Corrections
from transformer_cli.extensions.serve.guard import Guard, ImpatientProtocol, read_keys
from transformer_cli.extensions.serve.learning import Learner
from transformer_cli.extensions.serve.server import Served, Server
from transformer_cli.runs.directory import RunDirectory, lock_directory

LOCAL = ("127.0.0.1", "::1", "localhost")
"""The addresses at which only this machine reaches the server."""


def run_server(given: Any) -> None:
    """Serve until a signal stops it; ``given`` are the options of the command.

    Raises:
        UsageError: the address cannot be used, or two runs have the same languages.
        RunError, CheckpointError: a run is damaged, or another server uses it.
    """
    with _listen(given.host, given.port) as listening, open_app(given) as app:
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=round(given.timeout),
        )
        host, port = listening.getsockname()[:2]
        say(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def open_app(given: Any) -> Iterator[CORSMiddleware]:
    """Open the runs, and return the ASGI application that serves them."""
    with ExitStack() as stack:
        served: dict[tuple[str, str], Served] = {}
        for run in given.runs:
            one = stack.enter_context(_open_run(run, given))
            if one.languages in served:
                raise UsageError(f"{run}: another run translates {' to '.join(one.languages)}, too")
            served[one.languages] = one
            log(f"{one.queue.model.options.run}: translates {' to '.join(one.languages)}")
        server = Server(
            served,
            keys=read_keys(given.keys) if given.keys else {},
            is_local=given.host in LOCAL,
            most_characters=given.max_chars,
            growing=["--device", given.device],
            logs_texts=given.log_texts,
        )
        # A character takes up to 12 bytes in JSON.
        most_bytes = {"": 12 * given.max_chars + 10_000, "/translate_file": given.max_file << 20}
        origins = given.cors or []
        guard = Guard(
            server.app(), given.queue, given.timeout, most_bytes, server.is_local, origins
        )
        yield CORSMiddleware(guard, origins, allow_headers=["*"], allow_methods=["GET", "POST"])


@contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        advice = "choose another --port or --host"
        raise UsageError(f"--host {host} --port {port}: {error.strerror}; {advice}") from error
    with listening:
        yield listening


@contextmanager
def _open_run(run: Path, given: Any) -> Iterator[Served]:
    """Load a run, and lock the directory of its corrections, if it can be written."""
    hardware = {"device": given.device, "precision": given.precision, "threads": given.threads}
    translating = build_options(TranslateOptions, "translate", run=run, **hardware)
    directory = RunDirectory(run)
    engine = directory.only_engine
    data = (engine.load().load_settings(directory) if engine else directory.load_config()).data
    languages = base_language(data.src_lang), base_language(data.tgt_lang)
    if not os.access(run, os.W_OK):
        log(f"{run}: cannot be written, so it takes no corrections")
        yield Served(languages, translating, None)
        return
    check_no_links(run, ["served"])
    place = run / "served"
    with lock_directory(place):
        corrections = Corrections(place / "suggestions.tmx", (data.src_lang, data.tgt_lang))
        every = None if engine else given.learn
        yield Served(languages, translating, Learner(place, corrections, every))
        corrections.close()

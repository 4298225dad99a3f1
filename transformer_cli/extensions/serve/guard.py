"""What a server accepts: hosts, origins, keys, sizes, numbers of requests, and slow clients."""

import asyncio
import hashlib
import hmac
import re
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import read_small

SECONDS_TO_SEND = 10.0
"""How long a client may take to send a request."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


@dataclass
class Guard:
    """An ASGI application that refuses requests to ``app``, another one, or limits them."""

    app: ASGIApp
    given: Any  # the options of ``serve``
    _count: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection; see the specification of ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        left = 12 * self.given.max_chars + 10_000  # a character takes up to 12 bytes in JSON
        if scope["path"] == "/translate_file":
            left = self.given.max_file << 20
        sent_by = asyncio.get_running_loop().time() + SECONDS_TO_SEND
        has_started = is_whole = is_counted = False

        async def receive_in_time() -> Message:
            nonlocal left, is_whole, is_counted
            try:
                async with asyncio.timeout_at(sent_by):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the request did not arrive in time") from None
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, "the request is too large")
            if message["type"] == "http.request" and not message.get("more_body"):
                is_whole = True
                # Count only whole requests, so that slow senders do not keep out others.
                if not is_counted and self._count >= self.given.queue and scope["method"] == "POST":
                    raise HTTPException(503, "too many requests; try again", {"Retry-After": "1"})
                self._count += not is_counted
                is_counted = True
            return message

        async def send_safely(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                # The rest of a request that is answered before its end may never come.
                is_early = scope["method"] == "POST" and not is_whole
                closing = [(b"connection", b"close")] if is_early else []
                message["headers"] = [*message["headers"], *_SAFE, *closing]
            await send(message)

        try:
            async with asyncio.timeout(self.given.timeout):
                if (why := self._refuse(scope)) is not None:
                    await refuse(403, why)(scope, receive, send_safely)
                else:
                    await self.app(scope, receive_in_time, send_safely)
        except TimeoutError:
            if not has_started:
                why = "the translation takes too long; send less text, or try again later"
                await refuse(503, why, {"Retry-After": "1"})(scope, receive, send_safely)
        finally:
            self._count -= is_counted

    def _refuse(self, scope: Scope) -> str | None:
        """Return why a request is refused, or None."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin", "")
        # A page of another site can send requests to this machine, even under a name of its own.
        if self.given.is_local and re.sub(r":\d+$", "", host) not in _LOOPBACK:
            return "this server only answers to 127.0.0.1 and localhost"
        if origin and origin.partition("://")[2] != host and origin not in (self.given.cors or ()):
            return f"pages of {origin[:100]} may not use this server; see --cors"
        return None


def refuse(status: int, why: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a response that says why a request is refused, in the form of LibreTranslate."""
    return JSONResponse({"error": why}, status, headers)


class ImpatientProtocol(H11Protocol):
    """HTTP, with a limit on the time for a request's headers."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()
        super().data_received(data)
        if self._deadline and self.cycle and not self.cycle.response_complete:
            self._deadline.cancel()  # ``Guard`` limits the time for the body
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state is h11.IDLE:
            super().send_400_response(msg)
        else:  # the request has an answer, or will get one
            self.transport.abort()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(SECONDS_TO_SEND, self.transport.abort)


def configure(app: ASGIApp, timeout: float) -> uvicorn.Config:
    """Return how to serve an app; ``timeout`` is in seconds, of a request."""
    return uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        h11_max_incomplete_event_size=1 << 17,  # of headers; a form may be in the address
        log_level="error",  # a warning for each odd request would fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(timeout) + 1,
    )


def run(config: uvicorn.Config, listening: socket.socket) -> None:
    """Answer the requests that arrive at a socket, until a signal ends this process."""
    # A closed terminal, too, ends the training. With nohup, the signal is ignored.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    uvicorn.Server(config).run(sockets=[listening])


# --- keys -----------------------------------------------------------------------------------------


def read_keys(path: Path) -> dict[str, str]:
    """Return the names of keys, by the SHA-256 of each key, from lines such as 'ann SHA256'.

    Raises:
        UsageError: the file cannot be read, a line has another form, or there is no key.
    """
    try:
        lines = read_small(path).decode().splitlines()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--keys: {path}: cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            match = re.fullmatch(r"(\S+)\s+([0-9a-fA-F]{64})\s*", line)
            if match is None or match[2].lower() == hashlib.sha256(b"").hexdigest():
                raise UsageError(f"--keys: {path}: line {number}: expected NAME SHA256-OF-KEY")
            found[match[2].lower()] = match[1]
    if not found:
        raise UsageError(f"--keys: {path}: has no keys; add a line NAME SHA256-OF-KEY")
    return found


def find_key(keys: Mapping[str, str], given: str) -> str | None:
    """Return the name of a key, or None, in a time that does not depend on its first characters."""
    own = hashlib.sha256(given.encode(errors="replace")).hexdigest()
    return next((keys[each] for each in keys if hmac.compare_digest(own, each)), None)

"""What a server accepts: hosts, origins, sizes, numbers of requests, and how long they take."""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import read_small

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

SECONDS_TO_SEND = 10.0
"""How long a client may take to send a request."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LATER, _LAST = {"Retry-After": "1"}, {"Connection": "close"}
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
    """Lets requests through to an app, or refuses them.

    Attributes:
        app: the ASGI app.
        queue: how many requests may be under way.
        seconds: how long each may take.
        most_bytes: the largest body, by path; the value of '' is for other paths.
        is_local: whether the server only serves this machine, so that only its names are right.
        origins: other origins whose pages may use the server.
    """

    app: Callable[[Scope, Receive, Send], Awaitable[None]]
    queue: int
    seconds: float
    most_bytes: dict[str, int]
    is_local: bool
    origins: Sequence[str]
    under_way: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event; see its specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif (refusal := self._refuse(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            await self._let_through(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = {name.decode("latin-1"): at.decode("latin-1") for name, at in scope["headers"]}
        host = headers.get("host", "")
        # A page of another site can send requests to this machine, even under a name of its own.
        if self.is_local and re.sub(r":\d+$", "", host) not in _LOOPBACK:
            return refuse(403, "this server only answers to 127.0.0.1 and localhost")
        origin = headers.get("origin", "")
        if origin and urlsplit(origin).netloc != host and origin not in self.origins:
            return refuse(403, f"pages of {origin[:100]} may not use this server; see --cors")
        if scope["method"] == "POST" and self.under_way >= self.queue:
            return refuse(503, "too many requests; try again later", _LATER)
        return None

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self.most_bytes.get(scope["path"], self.most_bytes[""])
        sent_by = asyncio.get_running_loop().time() + SECONDS_TO_SEND
        has_started = False

        async def receive_in_time() -> Any:
            nonlocal limit
            try:
                async with asyncio.timeout_at(sent_by):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the request did not arrive in time", _LAST) from None
            limit -= len(message.get("body", b""))
            if limit < 0:
                raise HTTPException(413, "the request is too large", _LAST)
            return message

        async def send_safely(message: Any) -> None:
            nonlocal has_started
            has_started = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_SAFE]
            await send(message)

        self.under_way += 1
        try:
            async with asyncio.timeout(self.seconds):
                await self.app(scope, receive_in_time, send_safely)
        except TimeoutError:
            if not has_started:
                why = "the translation takes too long; send less text, or try again later"
                await refuse(503, why, _LATER)(scope, receive, send_safely)
        finally:
            self.under_way -= 1


def refuse(status: int, why: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a response that says why a request is refused, in the form of LibreTranslate."""
    return JSONResponse({"error": why}, status, headers)


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP, where a connection ends if it has no request and does not send one in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(SECONDS_TO_SEND, self._drop)

    def _drop(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._wait()


# --- keys -----------------------------------------------------------------------------------------


def read_keys(path: Path) -> dict[str, str]:
    """Return the names of keys, by the SHA-256 of each key, from a file of lines 'NAME SHA256'.

    Raises:
        UsageError: a line has another form, or there is none.
    """
    found = {}
    try:
        lines = read_small(path).decode().splitlines()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--keys: {path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+)\s+([0-9a-fA-F]{64})\s*", line)
        if match is None:
            advice = "expected a name and the SHA-256 of a key, as in docs/extensions/serve.md"
            raise UsageError(f"--keys: {path}: line {number}: {advice}")
        found[match[2].lower()] = match[1]
    if not found:
        raise UsageError(f"--keys: {path}: has no keys; add a line with a name and a SHA-256")
    return found


def find_key(keys: dict[str, str], given: str) -> str | None:
    """Return the name of a key, or None; the time does not depend on which characters are right."""
    own, found = hashlib.sha256(given.encode(errors="replace")).hexdigest(), None
    for hashed, name in keys.items():
        if hmac.compare_digest(own, hashed):
            found = name
    return found

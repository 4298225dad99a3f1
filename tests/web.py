"""A web server on the loopback, with ranges, redirects and failures, as tests ask for."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Web:
    """What a server sends, and what it was asked for."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    cut: int | None = None
    """Bytes of a body after which the connection breaks off."""
    announced: int | None = None
    """What Content-Length says, whatever comes."""
    headers: dict[str, str] = field(default_factory=dict)
    """Other ones than the server's own; those without a value are left out."""
    ignores_versions: bool = False
    """Whether ranges are sent of any version."""
    requests: list[str] = field(default_factory=list)
    """Names that were asked for, with the ranges."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.removeprefix("/")
        wanted = request.headers.get("Range", "")
        self.requests.append(f"{name} {wanted}".strip())
        status = self.statuses.get(name, 302 if name in self.redirects else 200)
        body = self.bodies.get(name, b"")
        if status == 200 and name not in self.bodies:
            status = 404
        tag = f'"{hashlib.sha256(body).hexdigest()[:8]}"'
        headers = {"ETag": tag, "Location": self.redirects.get(name, "")} | self.headers
        start = re.fullmatch(r"bytes=(\d+)-", wanted)
        if (
            start
            and status == 200
            and (self.ignores_versions or request.headers.get("If-Range") in headers.values())
        ):
            first, size = int(start[1]), len(body)
            status, body = (206, body[first:]) if first < size else (416, b"")
            headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"
        headers.setdefault("Content-Length", str(self.announced or len(body)))
        request.send_response(status)
        for key, value in headers.items():
            if value:
                request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body[: self.cut])


@contextmanager
def serve() -> Iterator[Web]:
    """Yield a server that has nothing yet."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        web.url = f"http://127.0.0.1:{http.server_port}/"
        yield web
        http.shutdown()
        thread.join()

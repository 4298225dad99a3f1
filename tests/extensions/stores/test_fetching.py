"""Files from the web are fetched once, resumed, and never replaced by another file."""

import gzip
import hashlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from web import Web, serve

from transformer_cli.base import artifact
from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.corpora import by_name
from transformer_cli.extensions.stores import fetching
from transformer_cli.extensions.stores.fetching import fetch, find

BODY = b"".join(b"line %d\n" % number for number in range(50_000))
GONE_ON = "corpus.txt bytes=262144-"
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, with access to no host except loopback."""
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "fetched"


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        server.bodies["corpus.txt"] = BODY
        yield server


def failure(url: str, sha256: str | None = None) -> str:
    """The message of a fetch that fails: one line, and no file is taken for a valid one."""
    with pytest.raises(CorpusError) as error:
        fetch(url, sha256)
    assert "\n" not in str(error.value)
    assert find(url, sha256) is None
    return str(error.value)


def break_off(web: Web, after: int) -> None:
    web.cut = after
    message = failure(web.url + "corpus.txt")
    assert message.startswith(f"{web.url}corpus.txt: could not be fetched: the connection failed")
    assert message.endswith("run the command again to resume")
    web.cut = None
    web.requests.clear()


# --- once -----------------------------------------------------------------------------------------


def test_a_file_is_fetched_once(web: Web, capfd: pytest.CaptureFixture[str]) -> None:
    path = fetch(web.url + "corpus.txt")
    assert (path.name, path.read_bytes()) == ("corpus.txt", BODY)
    out, err = capfd.readouterr()
    assert out == ""
    assert "corpus.txt: fetching 1 MB to " in err
    assert f"sha256: {SHA256}\n" in err
    assert fetch(web.url + "corpus.txt") == fetch(web.url + "corpus.txt", SHA256) == path
    assert web.requests == ["corpus.txt"]
    assert capfd.readouterr() == ("", "")


def test_a_mirror_is_not_asked_for_existing_files(web: Web) -> None:
    path = fetch(web.url + "corpus.txt", SHA256)
    assert fetch("https://mirror.invalid/other/corpus.txt", SHA256) == path


def test_a_damaged_file_is_fetched_again(web: Web) -> None:
    path = fetch(web.url + "corpus.txt")
    path.write_bytes(b"damaged")
    assert fetch(web.url + "corpus.txt") == path
    assert path.read_bytes() == BODY


def test_processes_that_want_the_same_file_fetch_it_once(web: Web) -> None:
    together = threading.Barrier(4)

    def fetch_one(_: int) -> Path:
        together.wait()
        return fetch(web.url + "corpus.txt")

    with ThreadPoolExecutor(4) as threads:
        (path,) = set(threads.map(fetch_one, range(4)))
    assert path.read_bytes() == BODY
    assert web.requests == ["corpus.txt"]


def test_a_waiting_process_says_why(web: Web, cache: Path) -> None:
    fetch(web.url + "corpus.txt").unlink()
    [lock] = map(FileLock, cache.glob("*.lock"))
    lock.acquire()
    said = []

    def say(message: str) -> None:
        said.append(message)
        lock.release()

    fetch(web.url + "corpus.txt", SHA256, say)
    assert said[0] == f"{web.url}corpus.txt: waiting for another process that is fetching it"


def test_a_packed_file_stays_packed_whatever_the_server_calls_it(web: Web) -> None:
    web.bodies["corpus.gz"] = gzip.compress(BODY)
    web.headers = {"Content-Encoding": "x-gzip", "Content-Type": "text/plain"}
    assert fetch(web.url + "corpus.gz").read_bytes() == web.bodies["corpus.gz"]


NAMES = ["..%2Fx", ".fetched.json", "a%00b", "ü.txt", "", "a%5C..", "%E4%BD%A0" * 90]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_cache(web: Web, cache: Path, name: str) -> None:
    web.redirects |= dict.fromkeys([name, "%C3%BC.txt"], "corpus.txt")
    path = fetch(web.url + name, SHA256)
    assert path.parent.parent == cache
    assert path.read_bytes() == BODY


# --- interrupted ----------------------------------------------------------------------------------


def test_an_interrupted_fetch_is_resumed(web: Web, capfd: pytest.CaptureFixture[str]) -> None:
    break_off(web, 300_000)
    assert fetch(web.url + "corpus.txt").read_bytes() == BODY
    assert web.requests == [GONE_ON]
    assert "1 MB, 1 MB of them already here," in capfd.readouterr().err


def test_a_whole_file_is_not_lost_while_it_is_put_away(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(artifact, "record_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(web.url + "corpus.txt")
    assert fetch(web.url + "corpus.txt").read_bytes() == BODY
    assert web.requests == ["corpus.txt"]


def test_a_server_without_tags_is_asked_by_the_time(web: Web) -> None:
    web.headers = {"ETag": 'W/"weak"', "Last-Modified": "Sun, 13 May 2018 15:50:00 GMT"}
    break_off(web, 300_000)
    assert fetch(web.url + "corpus.txt").read_bytes() == BODY
    assert web.requests == [GONE_ON]


def test_a_server_without_versions_sends_all_again(web: Web) -> None:
    web.headers = {"ETag": ""}
    break_off(web, 300_000)
    assert fetch(web.url + "corpus.txt").read_bytes() == BODY
    assert web.requests == ["corpus.txt"]


@pytest.mark.parametrize("ignores_versions", [False, True])
@pytest.mark.parametrize("new", [BODY[::-1], b"short", BODY + BODY])
def test_two_versions_are_never_mixed(web: Web, ignores_versions: bool, new: bytes) -> None:
    break_off(web, 300_000)
    web.bodies["corpus.txt"] = new
    web.ignores_versions = ignores_versions
    assert fetch(web.url + "corpus.txt").read_bytes() == new


def test_a_server_that_is_busy_costs_nothing(web: Web) -> None:
    break_off(web, 300_000)
    web.statuses["corpus.txt"] = 503
    assert failure(web.url + "corpus.txt").endswith("the server answered 503; try again later")
    web.statuses.clear()
    fetch(web.url + "corpus.txt")
    assert web.requests[-1] == GONE_ON


# --- refused --------------------------------------------------------------------------------------


def test_a_file_with_another_checksum_is_not_kept(web: Web, cache: Path) -> None:
    message = failure(web.url + "corpus.txt", "0" * 64)
    assert f"(its SHA-256 begins {SHA256[:12]}, not {'0' * 12}), so it was not kept" in message
    assert not [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 1000]


@pytest.mark.parametrize("status", [404, 410, 418, 202, 204, 206, 300, 304])
def test_a_file_that_no_longer_exists_is_named(web: Web, status: int) -> None:
    web.statuses["corpus.txt"] = status
    message = failure(web.url + "corpus.txt")
    assert f"corpus.txt: could not be fetched: the server answered {status}; check" in message


def test_a_page_or_nothing_is_no_text(web: Web) -> None:
    web.headers = {"Content-Type": "text/html; charset=utf-8"}
    assert "the server sent a web page; check" in failure(web.url + "corpus.txt")
    assert fetch(web.url + "corpus.txt", SHA256).read_bytes() == BODY  # it is meant
    web.headers, web.bodies["empty.txt"] = {}, b""
    assert "the server sent an empty file; check" in failure(web.url + "empty.txt")


def test_a_server_that_is_silent_or_down_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT", (5.0, 0.05))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        assert "connection failed (ReadTimeout)" in failure(url)
    assert "connection failed (ConnectionError)" in failure(url)


_LENGTH = b"\r\nContent-Length: 500\r\n\r\n"
_CHUNKED = b"\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def trickling(at_once: bytes, trickle: bytes) -> Iterator[str]:
    """Yield the URL of a server that sends the end of its answer a byte at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK" + at_once)
                for byte in trickle:
                    time.sleep(0.01)
                    connection.sendall(bytes([byte]))

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        thread.join()


@pytest.mark.parametrize(
    ("at_once", "trickle"),
    [
        (b"\r\nX: ", b"x" * 500 + _LENGTH + b"x" * 500),
        (_LENGTH, b"x" * 500),
        (_CHUNKED, b"1; " + b"x" * 500 + b"\r\nx\r\n0\r\n\r\n"),
        (_CHUNKED + b"1\r\nx\r\n0\r\n", b"Trailer: " + b"x" * 500 + b"\r\n\r\n"),
    ],
    ids=["headers", "body", "size of a chunk", "trailer"],
)
def test_a_server_that_sends_a_byte_at_a_time_is_an_error(
    monkeypatch: pytest.MonkeyPatch, at_once: bytes, trickle: bytes
) -> None:
    monkeypatch.setattr(fetching, "CHUNK_SECONDS", 0.5)
    with trickling(at_once, trickle) as url:
        assert "the server is too slow: it took over 0.5 s for 256 KB or less; run" in failure(url)


def test_a_slow_answer_of_opus_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_name, "CHUNK_SECONDS", 0.5)
    with trickling(_LENGTH, b"x" * 500) as url:
        monkeypatch.setattr(by_name, "API", url)
        with pytest.raises(CorpusError, match="cannot reach OPUS: the server is too slow"):
            by_name.list_releases("de", "en")


def test_a_file_larger_than_the_disk_is_not_fetched(
    web: Web, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.announced = 10**15
    message = failure(web.url + "corpus.txt")
    assert "needs 1000000.0 GB, more than the " in message
    assert "TRANSFORMER_CLI_CACHE" in message
    assert not list(cache.rglob("*.part"))
    web.announced, free = None, shutil.disk_usage(".")._replace(free=(64 << 20) + 100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    assert "needs 1 MB, more than the 1 MB to spare on the disk" in failure(web.url + "corpus.txt")
    web.headers["Content-Length"] = ""
    assert "needs more than the 1 MB to spare on the disk" in failure(web.url + "corpus.txt")
    assert sum(path.stat().st_size for path in cache.rglob("*.part")) == 0


def test_a_redirect_is_followed(web: Web) -> None:
    web.redirects["latest"] = "/corpus.txt"
    assert fetch(web.url + "latest").read_bytes() == BODY
    web.redirects["around"] = "/around"
    assert "the server redirects without end" in failure(web.url + "around")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://h/x", "http://example.org/x"])
def test_an_unsafe_redirect_is_refused(web: Web, target: str) -> None:
    web.redirects["x"] = target
    assert failure(web.url + "x").startswith(f"{web.url}x: the server redirects to {target}: ")


def test_a_redirect_shows_no_secret(web: Web) -> None:
    web.redirects = {"x": "/signed?key=SECRET", "signed?key=SECRET": "ftp://me:SECRET@h/x"}
    assert "SECRET" not in failure(web.url + "x")


def test_a_redirect_to_no_url_is_an_error(web: Web) -> None:
    web.redirects["x"] = "https://[x/"
    assert "the URL, or one that it redirects to, is not valid" in failure(web.url + "x")


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/x", "file:///etc/passwd", "https:///x", "x"),
        *("https://[x", "https://a..b/x", "https://h:abc/x", "http://example.org\\@127.0.0.1/x"),
    ],
)
def test_urls_that_are_not_safe_are_refused(url: str) -> None:
    assert failure(url).startswith(f"{url}: ")


def test_https_never_becomes_http(monkeypatch: pytest.MonkeyPatch) -> None:
    check: Any = fetching._check_url
    check("http://example.org/x", SHA256)
    with pytest.raises(CorpusError, match="only https URLs are fetched"):
        check("http://127.0.0.1/x", SHA256, before="https://example.org/x")

"""Files of the web: fetched once, gone on with, and never another than the one that is meant."""

import hashlib
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from web import Web, serve

from transformer_cli.data import fetching
from transformer_cli.data.fetching import fetch, find
from transformer_cli.errors import CorpusError

BODY = b"".join(b"line %d\n" % number for number in range(50_000))
GONE_ON = "corpus.txt bytes=262144-"
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no way to any host but loopback."""
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "fetched"


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        server.bodies["corpus.txt"] = BODY
        yield server


def failure(url: str, sha256: str | None = None) -> str:
    """The message of a fetch that fails: one line, and no file is taken for a good one."""
    with pytest.raises(CorpusError) as error:
        fetch(url, sha256)
    assert "\n" not in str(error.value)
    assert find(url, sha256) is None
    return str(error.value)


def break_off(web: Web, after: int) -> None:
    web.cut = after
    message = failure(web.url + "corpus.txt")
    assert message.startswith(f"{web.url}corpus.txt: could not be fetched: no connection")
    assert message.endswith("run the command again, and it goes on where it ended")
    web.cut = None
    web.requests.clear()


# --- once -----------------------------------------------------------------------------------------


def test_a_file_is_fetched_once(web: Web, capfd: pytest.CaptureFixture[str]) -> None:
    path = fetch(web.url + "corpus.txt")
    assert (path.name, path.read_bytes()) == ("corpus.txt", BODY)
    out, err = capfd.readouterr()
    assert out == ""
    assert "corpus.txt: fetching 1 MB, to " in err
    assert f"sha256: {SHA256}\n" in err
    assert fetch(web.url + "corpus.txt") == fetch(web.url + "corpus.txt", SHA256) == path
    assert web.requests == ["corpus.txt"]
    assert capfd.readouterr() == ("", "")


def test_a_mirror_is_not_asked_for_what_is_there(web: Web) -> None:
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


@pytest.mark.parametrize("name", ["..%2Fx", ".fetched.json", "a%00b", "ü.txt", "", "a%5C.."])
def test_no_name_leads_out_of_the_cache(web: Web, cache: Path, name: str) -> None:
    web.redirects |= dict.fromkeys([name, "%C3%BC.txt"], "corpus.txt")
    path = fetch(web.url + name, SHA256)
    assert path.parent.parent == cache
    assert path.read_bytes() == BODY


# --- interrupted ----------------------------------------------------------------------------------


def test_an_interrupted_file_goes_on(web: Web, capfd: pytest.CaptureFixture[str]) -> None:
    break_off(web, 300_000)
    assert fetch(web.url + "corpus.txt").read_bytes() == BODY
    assert web.requests == [GONE_ON]
    assert "1 MB, of which 1 MB are there" in capfd.readouterr().err


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


def test_another_file_than_the_one_that_is_meant_is_not_kept(web: Web, cache: Path) -> None:
    message = failure(web.url + "corpus.txt", "0" * 64)
    assert f"(its SHA-256 begins {SHA256[:12]}, not {'0' * 12}), and is not kept" in message
    assert not [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 1000]


@pytest.mark.parametrize("status", [404, 410, 403, 418])
def test_a_file_that_is_gone_is_named(web: Web, status: int) -> None:
    web.statuses["corpus.txt"] = status
    message = failure(web.url + "corpus.txt")
    assert f"corpus.txt: could not be fetched: the server answered {status}; check" in message


def test_a_server_that_is_silent_or_down_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT", (5.0, 0.05))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        assert "it broke off (ReadTimeout)" in failure(url)
    assert "it broke off (ConnectionError)" in failure(url)


def test_what_is_larger_than_the_disk_is_not_begun(
    web: Web, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.announced = 10**15
    message = failure(web.url + "corpus.txt")
    assert "has 1000000.0 GB, where the disk of " in message
    assert "TRANSFORMER_CLI_CACHE" in message
    assert not list(cache.rglob("*.part"))
    web.announced, free = None, shutil.disk_usage(".")._replace(free=(64 << 20) + 100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    assert "has 1 MB, where the disk of " in failure(web.url + "corpus.txt")


def test_a_redirect_is_followed(web: Web) -> None:
    web.redirects["latest"] = "/corpus.txt"
    assert fetch(web.url + "latest").read_bytes() == BODY
    web.redirects["around"] = "/around"
    assert "the server redirects without end" in failure(web.url + "around")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://h/x", "http://example.org/x"])
def test_a_redirect_to_what_is_not_safe_is_refused(web: Web, target: str) -> None:
    web.redirects["x"] = target
    assert failure(web.url + "x").startswith(f"{web.url}x: the server leads to {target}: ")


@pytest.mark.parametrize("url", ["http://example.org/x", "file:///etc/passwd", "https:///x", "x"])
def test_urls_that_are_not_safe_are_refused(url: str) -> None:
    assert failure(url).startswith(f"{url}: ")


def test_https_never_becomes_http(monkeypatch: pytest.MonkeyPatch) -> None:
    check: Any = fetching._check_url
    check("http://example.org/x", SHA256)
    with pytest.raises(CorpusError, match="only https is followed from https"):
        check("http://127.0.0.1/x", SHA256, before="https://example.org/x")

"""A server under load, with slow senders, and when it is stopped."""

import asyncio
import json
import shutil
import signal
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from cli.process import run

from extensions.serve.conftest import Open, Process
from extensions.serve.test_server import TEXT
from transformer_cli.base.errors import InputError
from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.extensions.serve import guard
from transformer_cli.extensions.serve.model import Line, Model, Wanted
from transformer_cli.extensions.serve.served import open_run
from transformer_cli.inference.translation import Translation


def _post(port: int, body: dict[str, object], path: str = "/translate") -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(TEXT | body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            json.load(answer)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@contextmanager
def _running(app: Any) -> Iterator[int]:
    """Run an app as ``serve`` does, in a thread; yield its port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = guard.configure(app, timeout=60.0)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def test_many_clients_at_once_get_an_answer_or_are_told_to_wait(serve: Open) -> None:
    with _running(serve(queue=16).app) as port, ThreadPoolExecutor(100) as pool:
        statuses = Counter(pool.map(lambda number: _post(port, {"q": f"1 {number}"}), range(300)))
    assert statuses.keys() <= {200, 503}
    assert statuses[200] > 0


def test_slow_senders_are_dropped(serve: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SECONDS_TO_SEND", 0.2)
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    with _running(serve().app) as port:
        for sent, answered in ((b"", b""), (head[:30], b""), (head, b"HTTP/1.1 408")):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(sent)
                received = b""
                while got := connection.recv(1 << 16):
                    received += got
                assert received.startswith(answered)
                assert bool(received) == bool(answered)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            time.sleep(0.1)
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")  # the second request is slow
            while connection.recv(1 << 16):
                pass
        assert _post(port, {"q": "1"}) == 200


def test_a_request_that_takes_too_long_is_refused(serve: Open) -> None:
    client = serve(timeout=0.05)
    answer = client.post("/translate", json=TEXT | {"q": [f"1 2 3 4 5 {n}" for n in range(600)]})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_server_answers_what_it_accepted(served: Process, number: int) -> None:
    lines = [f"1 2 3 4 5 6 {n}" for n in range(500)]
    assert _post(served.port, {"q": "1"}) == 200
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(_post, served.port, {"q": lines})
        time.sleep(0.3)
        code, log = served.end(number)
        assert answer.result() == 200
    assert code == 128 + (signal.SIGTERM if number == signal.SIGHUP else number)
    assert "Traceback" not in log
    assert lines[5] not in log


def test_a_second_interrupt_ends_the_server_without_a_traceback(served: Process) -> None:
    assert _post(served.port, {"q": "1"}) == 200
    served.process.send_signal(signal.SIGINT)
    code, log = served.end(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in log


def test_a_second_server_of_a_run_is_refused(served: Process, own_run: Path) -> None:
    refused = run("serve", own_run, "--port", "0")
    assert refused.code == 1
    assert "in use by process" in refused.err
    other = run("serve", own_run, "--port", str(served.port))
    assert other.code == 2
    assert "choose another --port" in other.err


def test_kill_9_loses_no_correction(own_run: Path) -> None:
    kept: list[int] = []
    for start in (0, 1_000):
        server = Process(own_run)

        def send(start: int, server: Process = server) -> None:
            for number in range(start, start + 1_000):
                body: dict[str, object] = {"q": f"1 {number}", "s": f"x{number}"}
                if _post(server.port, body, "/suggest") == 200:
                    kept.append(number)

        with ThreadPoolExecutor() as pool:
            sent = pool.submit(send, start)
            before = len(kept)
            while len(kept) < before + 5:
                time.sleep(0.01)
            assert server.end(signal.SIGKILL)[0] == -signal.SIGKILL
            assert sent.exception() is not None  # the connection was lost
    text = (own_run / "served/suggestions.tmx").read_text()
    assert kept
    for number in kept:
        assert text.count(f"<seg>x{number}</seg>") == 1


def test_takeover_under_load_loses_no_request(own_run: Path) -> None:
    other = shutil.copytree(own_run, own_run.with_name("other"))
    options = build_options(TranslateOptions, "translate", run=own_run, threads=1)
    with open_run(options, None) as one:

        async def translate(number: int) -> str:
            model = one.queue.model
            lines = await one.queue.translate(model, [f"1 {number}"] * 300, Wanted())
            assert len(lines) == 300
            return model.options.run.name

        async def translate_all() -> list[str]:
            tasks = [asyncio.create_task(translate(number)) for number in range(20)]
            await asyncio.sleep(0.05)
            one.queue.model = await asyncio.to_thread(one._load, other)
            tasks += [asyncio.create_task(translate(number)) for number in range(20)]
            return await asyncio.gather(*tasks)

        models = asyncio.run(translate_all())
    assert models == ["run"] * 20 + ["other"] * 20


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_requests_at_once_form_batches_of_equal_size(
    own_run: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    batches: list[int] = []
    may_end = Event()

    def translate(_: Model, lines: Sequence[str], *__: object) -> list[Line]:
        batches.append(len(lines))
        assert may_end.wait(60)
        return [Line([Translation(line)]) for line in lines]

    monkeypatch.setattr(Model, "translate", translate)
    monkeypatch.setattr("transformer_cli.extensions.serve.model.count_cores", lambda: 16)
    given = {"engine": "torch"} if engine == "torch" else {"engine": engine, "threads": 2}
    options = build_options(TranslateOptions, "translate", run=own_run, **given)
    with open_run(options, None) as one:

        async def translate_all() -> list[list[Line]]:
            tasks = [
                asyncio.create_task(one.queue.translate(one.queue.model, [str(number)], Wanted()))
                for number in range(64)
            ]
            while len(batches) < 2:
                await asyncio.sleep(0.001)
            may_end.set()
            return await asyncio.gather(*tasks)

        found = asyncio.run(translate_all())
    assert batches == [32, 32]
    assert [line.translations[0].text for (line,) in found] == [*map(str, range(64))]


def test_a_line_that_fails_fails_only_its_request(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translate(_: Model, lines: Sequence[str], *__: object) -> list[Line]:
        if "bad" in lines:
            raise InputError("an unknown tag")
        return [Line([Translation(line)]) for line in lines]

    monkeypatch.setattr(Model, "translate", translate)
    options = build_options(TranslateOptions, "translate", run=own_run, threads=2)
    with open_run(options, None) as one:

        async def translate_all() -> list[list[Line] | BaseException]:
            requests = (["1"], ["bad"], ["2"], ["3", "4"])
            waiting = [one.queue.translate(one.queue.model, each, Wanted()) for each in requests]
            return await asyncio.gather(*waiting, return_exceptions=True)

        found = asyncio.run(translate_all())
    answers = [
        str(each) if isinstance(each, BaseException) else [one.translations[0].text for one in each]
        for each in found
    ]
    assert answers == [["1"], "an unknown tag", ["2"], ["3", "4"]]


def test_idle_connections_stay_open(serve: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SECONDS_TO_SEND", 0.2)
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        _running(serve().app) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        for _ in range(4):
            connection.sendall(request)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            time.sleep(0.15)


def test_a_client_that_offers_http_2_gets_its_answer(serve: Open) -> None:
    body = json.dumps(TEXT | {"q": "1 2 3"}).encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with (
        _running(serve().app) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(head.encode() + body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_request_answered_before_its_end_loses_its_connection(serve: Open) -> None:
    head = b"POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000000\r\n\r\nx"
    with _running(serve().app) as port:
        for path, host in ((b"translate", b"evil.example"), (b"nothing", b"localhost")):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(head % (path, host))
                answer = b""
                while part := connection.recv(1 << 16):
                    answer += part
                assert b"connection: close" in answer


@pytest.mark.parametrize("head", ["GET /health HTTP/1.1", "POST /translate HTTP/1.1"])
def test_a_malformed_chunk_logs_nothing(served: Process, head: str) -> None:
    rest = "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for delay in (0, 0.2):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
            connection.sendall(f"{head}\r\n{rest}".encode())
            time.sleep(delay)
            with suppress(OSError):
                connection.sendall(b"ZZ\r\n")
                connection.recv(1 << 16)
    assert _post(served.port, {"q": "1"}) == 200
    assert served.end()[1].count("\n") == 1


def test_text_in_the_address_may_arrive_in_parts(serve: Open) -> None:
    with (
        _running(serve().app) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(b"POST /translate?source=xx&target=xx&q=" + b"%E6%97%A5" * 4000)
        time.sleep(0.1)
        connection.sendall(b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_endless_headers_are_refused(serve: Open) -> None:
    with _running(serve().app) as port, suppress(OSError):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n")
            for number in range(100_000):
                connection.sendall(b"x-%d: %s\r\n" % (number, b"x" * 1_000))
        pytest.fail("100 MB of headers were accepted")

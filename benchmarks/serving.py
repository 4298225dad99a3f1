"""Measure ``transformer-cli serve`` under load, next to ``translate`` on the same lines.

python -m benchmarks.serving RUN TEXT [--clients 64] [--seconds 60] [--lines 1]

Each client sends a request, waits for the answer, and sends the next one. The clients run in this
process, so they take time from the server's cores.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import psutil


@dataclass
class Load:
    """What the clients got: answers by status, models that answered, and seconds of each answer."""

    statuses: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    lines: int = 0

    def percentile(self, share: float) -> float:
        """Return the time within which a share of the answers came, in seconds."""
        return float(np.percentile(self.seconds, share)) if self.seconds else float("nan")

    def __str__(self) -> str:
        p50, p95, p99 = (1000 * self.percentile(share) for share in (50, 95, 99))
        times = f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"
        return f"{dict(self.statuses)}, by {dict(self.models)}; {times}"


@contextmanager
def running_server(*arguments: object) -> Iterator[tuple[str, int, psutil.Process]]:
    """Start ``serve`` on a free port; yield the host, the port and the process."""
    command = [sys.executable, "-m", "transformer_cli", "serve", "--port", "0", *arguments]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        host, _, port = address.removeprefix("http://").rpartition(":")
        try:
            yield host, int(port), psutil.Process(server.pid)
        finally:
            server.terminate()


async def post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: object
) -> tuple[str, dict[str, object]]:
    """Send a request over an open connection; return the status and the answer."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    (length,) = (int(one.split(":")[1]) for one in lines if one.startswith("content-length:"))
    return lines[0].split()[1], json.loads(await reader.readexactly(length))


async def send_load(
    host: str, port: int, texts: list[str], languages: tuple[str, str], clients: int, lines: int,
    seconds: float,
) -> Load:  # fmt: skip
    """Send requests from several clients for a time; return what they got."""
    load, end = Load(), time.perf_counter() + seconds
    source, target = languages

    async def client(number: int) -> None:
        own = islice(cycle(texts), number * len(texts) // clients, None)
        reader, writer = await asyncio.open_connection(host, port)
        while time.perf_counter() < end:
            q = list(islice(own, lines))
            body = {"q": q if lines > 1 else q[0], "source": source, "target": target}
            start = time.perf_counter()
            status, answer = await post(reader, writer, "/translate", body)
            load.seconds.append(time.perf_counter() - start)
            load.statuses[status] += 1
            load.models[str(answer.get("model"))] += 1
            load.lines += lines * (status == "200")
        writer.close()

    await asyncio.gather(*map(client, range(clients)))
    return load


def time_translate(run: Path, text: Path) -> float:
    """Return how many lines ``translate`` translates in a second, without its start."""

    def run_it(source: Path) -> float:
        start = time.perf_counter()
        command = [sys.executable, "-m", "transformer_cli", "translate", run, "-i", source]
        subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    lines = text.read_text().splitlines(keepends=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as one:
        one.write(lines[0])
        one.flush()
        start = run_it(Path(one.name))
    return (len(lines) - 1) / (run_it(text) - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--lines", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--languages", default="de-en")
    given = parser.parse_args()
    src, _, tgt = given.languages.partition("-")
    texts = given.text.read_text().splitlines()
    alone = time_translate(given.run, given.text)
    print(f"translate: {alone:.0f} lines/s")
    with running_server(given.run) as (host, port, server):
        for clients in (1, given.clients):
            before = server.memory_info().rss
            start, used = time.perf_counter(), sum(server.cpu_times()[:2])
            load = asyncio.run(
                send_load(host, port, texts, (src, tgt), clients, given.lines, given.seconds)
            )
            rate = load.lines / (time.perf_counter() - start)
            used = (sum(server.cpu_times()[:2]) - used) / (time.perf_counter() - start)
            grown = (server.memory_info().rss - before) / 1e6
            print(f"{clients} clients: {rate:.0f} lines/s ({rate / alone:.2f}); {load}")
            print(f"  {used:.2f} cores, {grown:+.1f} MB")


if __name__ == "__main__":
    main()

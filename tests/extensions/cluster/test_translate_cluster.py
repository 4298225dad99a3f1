"""Files that a cluster translates have the same bytes as alone, whatever is lost on the way."""

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, run, start

from extensions.cluster.dask_cluster import CAN_CUT, DaskCluster, Worker, wait_until

# By name, as ``auto`` would take torch for words, which takes each worker seconds to import.
ENGINE = ("--engine", "ctranslate2", "--threads", "1")
Client = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Text:
    """Files, and their translations by one process."""

    directory: Path
    files: int
    run: Path

    def options(self, output: Path) -> tuple[str | Path, ...]:
        return ("translate", self.run, "-i", self.directory / "in", "-o", output, *ENGINE)


@pytest.fixture(scope="module")
def make_text(
    training: Training, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, int], Text]:
    @cache
    def make(files: int, lines: int) -> Text:
        text = Text(tmp_path_factory.mktemp("text"), files, training.run)
        (text.directory / "in").mkdir()
        draw = random.Random(1)
        for number in range(files):
            content = "".join(f"{_sentence(draw)}\n" for _ in range(lines))
            (text.directory / "in" / f"{number:02}.txt").write_text(content)
        alone = run(*text.options(text.directory / "alone"))
        assert alone.code == 0, alone.err
        return text

    return make


def _sentence(draw: random.Random) -> str:
    return " ".join(str(draw.randrange(6)) for _ in range(draw.randrange(9)))


@dataclass
class Work:
    """Text that a cluster translates."""

    text: Text
    dask: DaskCluster
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out, self.log = self.dask.directory / "out", self.dask.directory / "log"
        self.start()

    def start(self) -> None:
        """Start the client."""
        with self.log.open("ab") as log:
            command = (*self.text.options(self.out), "--cluster", self.dask.address)
            self.client = start(*command, stdout=log, stderr=log)

    def wait_for(self, more: int) -> None:
        """Wait until so many more files are whole, or all of them are."""
        wanted = len(self._whole()) + more
        wait_until(
            lambda: len(self._whole()) >= wanted or self.client.poll() is not None,
            self.log.read_text,
        )

    def _whole(self) -> list[Path]:
        return [*self.out.glob("*.txt")]

    # What may happen:

    def lose_a_killed_worker(self) -> None:
        self.workers.pop().kill()

    def lose_a_stopped_worker_for_a_while(self) -> None:
        worker = self.workers.pop()
        worker.stop()
        self.workers.append(self.dask.start_worker())
        self.wait_for(2)
        worker.go_on()

    def lose_the_network_for_a_while(self) -> None:
        worker = self.workers.pop()
        worker.cut()
        self.wait_for(4)
        worker.mend()

    def lose_the_scheduler(self) -> None:
        self.dask.scheduler.kill()
        self.dask.start_scheduler()
        self.workers = [self.dask.start_worker()]

    def lose_the_client(self) -> None:
        self.client.kill()
        self.client.wait()
        self.start()


EACH = (
    Work.lose_a_killed_worker,
    Work.lose_a_stopped_worker_for_a_while,
    Work.lose_the_network_for_a_while,
    Work.lose_the_scheduler,
    Work.lose_the_client,
)
SHORT = pytest.param((Work.lose_a_killed_worker, Work.lose_the_client), 5, 500, id="short")


@pytest.mark.long
@pytest.mark.parametrize(
    ("misfortunes", "files", "lines"),
    [SHORT, *(pytest.param((each,), 20, 5000, id=each.__name__) for each in EACH)],
)
def test_whatever_is_lost_the_bytes_are_the_same(
    make_text: Callable[[int, int], Text],
    tmp_path: Path,
    misfortunes: tuple[Callable[[Work], None], ...],
    files: int,
    lines: int,
) -> None:
    needs_network = Work.lose_the_network_for_a_while in misfortunes
    if needs_network and not CAN_CUT:
        pytest.skip("needs root and ip")
    text = make_text(files, lines)
    with DaskCluster(tmp_path) as dask:
        workers = [dask.start_worker(), dask.start_worker(apart=needs_network)]
        work = Work(text, dask, workers)
        wait_until(lambda: [*work.out.glob("*.txt.partial-*")], work.log.read_text)
        for misfortune in misfortunes:
            misfortune(work)
        assert work.client.wait(PATIENCE) == 0, work.log.read_text()
        made, alone = (_visible(each) for each in (work.out, text.directory / "alone"))
    assert len(alone) == files
    assert made == alone  # and nothing is left of what was begun


def _visible(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name[0] != "."}

"""What it takes to build and to open the store of a big corpus, as real processes.

    python -m benchmarks.scale --sizes 100000 1000000 10000000 --directory /tmp/scale

For each size: writes as many seeded pairs (words by Zipf's law), runs ``transformer-cli vocab``,
then ``transformer-cli train`` until its first step is saved, then again to the end of 100 steps,
and prints a table. A run's stages are told by the files that appear in its directory. Before
each start of ``train`` the system is asked to forget the store's files, so that they are read from
the disk. ``--times 10`` then starts training on a store that holds the biggest corpus ten times
over, as one of so many pairs would be, without the hours that it takes to build.

Ten million pairs take 1.3 GB for the text, 1.6 GB for the store and ten minutes on two cores; both
are deleted at the end. Not part of ``make bench``. Run it alone on the machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.growth import CONFIG, VAL_PAIRS
from benchmarks.rounds import markdown_table
from benchmarks.synthetic_text import write_pairs
from transformer_cli.base.artifact import record_files
from transformer_cli.data.store import ID, EncodedStore, pack_page, store_artifact

SIZES = (100_000, 1_000_000, 10_000_000)
_TICK = 0.02
_PROGRAM = (sys.executable, "-m", "transformer_cli")


@dataclass(frozen=True)
class Row:
    """A corpus' measurements; seconds, bytes."""

    pairs: int
    text_bytes: int
    survey: float
    learn: float
    encode: float
    vocab_cpu: float
    vocab_peak: int
    store_bytes: int
    first_step: float
    train_peak: int
    tokens_a_second: float


@dataclass(frozen=True)
class Ended:
    """What a process took."""

    stages: list[float]
    """Seconds from its start until each thing waited for was there."""
    peak: int
    """Most bytes that it or a process of its own held."""
    cpu: float
    """Seconds of a core, those of its own processes included."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="pairs of each corpus")
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps to train for")
    parser.add_argument("--directory", type=Path, default=Path("/tmp/scale"), help="to work in")
    parser.add_argument("--times", type=int, help="start on the last store so many times over")
    parser.add_argument("--keep", action="store_true", help="leave text and stores there")
    options = parser.parse_args(arguments)
    rows = []
    for pairs in options.sizes:
        directory = options.directory / str(pairs)
        try:
            rows.append(measure(directory, pairs, options.steps))
            _say(f"{rows[-1]}")
            print(table(rows), flush=True)
            if options.times and pairs == options.sizes[-1]:
                print(start_on_more(directory, options.times), flush=True)
        finally:
            if not options.keep:
                shutil.rmtree(directory, ignore_errors=True)


def measure(directory: Path, pairs: int, steps: int) -> Row:
    """Build a corpus' store in ``directory`` and train on it."""
    _say(f"{pairs:,} pairs: writing them")
    config, text = directory / "config.yaml", [directory / "train.de", directory / "train.en"]
    if not config.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        for split, count, seed in (("val", VAL_PAIRS, 2), ("train", pairs, 1)):
            write_pairs(directory / f"{split}.de", directory / f"{split}.en", count, seed)
        # Last: the text is complete.
        config.write_text(CONFIG.format(corpus=directory.resolve()))
    run = directory / "run"
    shutil.rmtree(run, ignore_errors=True)
    _say(f"{pairs:,} pairs: vocab")
    made = [run / "config.yaml", run / "tokenizer", run / "encoded"]
    built = _follow("vocab", config, run, [path.exists for path in made])
    _say(f"{pairs:,} pairs: {built}; train")
    start = _first_step(config, run, steps)
    _forget(run / "encoded")
    trained = _follow("train", config, run, [], f"training.max_steps={steps}")
    survey, learned, encoded = built.stages
    return Row(
        pairs=pairs,
        text_bytes=sum(path.stat().st_size for path in text),
        survey=survey,
        learn=learned - survey,
        encode=encoded - learned,
        vocab_cpu=built.cpu,
        vocab_peak=built.peak,
        store_bytes=sum(path.stat().st_size for path in (run / "encoded").iterdir()),
        first_step=start.stages[0],
        train_peak=trained.peak,
        tokens_a_second=_speed(run / "metrics.jsonl"),
    )


def _first_step(config: Path, run: Path, steps: int) -> Ended:
    """Train until the first step is saved."""
    _forget(run / "encoded")
    first = run / "checkpoints" / "step-00000001"
    settings = (f"training.max_steps={steps}", "training.save_every=1")
    return _follow("train", config, run, [first.is_dir], *settings)


def start_on_more(directory: Path, times: int) -> str:
    """What starting takes where the store in ``directory`` holds its pairs so many times over.

    Its text stays as it is, so that of this store only its reading can be measured.
    """
    config, run = directory / "config.yaml", directory / "run"
    pairs = multiply_store(run / "encoded", times)
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink(missing_ok=True)
    found = _first_step(config, run, steps=100)
    seconds, peak = found.stages[0], found.peak
    return f"{pairs:,} pairs, to the first step: {seconds:.1f} s, {peak / 1e6:,.0f} MB"


def multiply_store(store: Path, times: int) -> int:
    """Make a store hold its pages so many times; give the number of pairs that it then has."""
    artifact = store_artifact(store)
    record = artifact.read()
    assert record is not None
    whole = record.stats.pairs // record.page_pairs  # pages; a short one may only be the last
    pairs = whole * record.page_pairs
    pages = list(EncodedStore(store, record).read_pages(range(whole)))
    start = 0
    with (store / "more").open("wb") as ids, (store / "table").open("wb") as table:
        for _ in range(times):
            for page in pages:
                entry, data = pack_page(page, start)
                table.write(entry)
                ids.write(data)
                start += len(data) // ID.itemsize
    (store / "more").replace(store / "ids")
    (store / "table").replace(store / "pages")
    stats = replace(record.stats, pairs=pairs * times)
    files = {name: each for name, each in record_files(store).items() if name in record.files}
    artifact.update(record, stats=stats, files=files)
    return pairs * times


def _follow(
    command: str, config: Path, run: Path, stages: list[Callable[[], bool]], *settings: str
) -> Ended:
    """Run a command; where it is waited for something that is no end, stop it when that came."""
    sets = [part for setting in settings for part in ("--set", setting)]
    begin = time.monotonic()
    process = subprocess.Popen(
        [*_PROGRAM, command, config, "--run-dir", run, *sets], stdout=subprocess.DEVNULL
    )
    came: list[float] = []
    stop = command == "train" and bool(stages)
    while True:
        while len(came) < len(stages) and stages[len(came)]():
            came.append(time.monotonic() - begin)
            if stop:
                process.terminate()
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(_TICK)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != (143 if stop else 0) or len(came) < len(stages):
        raise SystemExit(f"{command} ended with {process.returncode}; see above")
    return Ended(came, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def _forget(directory: Path) -> None:
    """Ask the system to drop what it has in memory of these files."""
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _speed(metrics: Path) -> float:
    """Target tokens a second between the last two training records."""
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    before, last = [record for record in records if record["kind"] == "train"][-2:]
    return float(last["tgt_tokens"] / (last["seconds"] - before["seconds"]))


def table(rows: Sequence[Row]) -> str:
    """The measurements as markdown."""
    head = (
        "pairs",
        "text, MB",
        "survey, s",
        "learn, s",
        "encode, s",
        "all of it, CPU s",
        "vocab's peak memory, MB",
        "store, MB",
        "start to first step, s",
        "train's peak memory, MB",
        "target tokens a second",
    )
    lines = [
        (
            f"{row.pairs:,}",
            f"{row.text_bytes / 1e6:,.0f}",
            f"{row.survey:.1f}",
            f"{row.learn:.1f}",
            f"{row.encode:.1f}",
            f"{row.vocab_cpu:.1f}",
            f"{row.vocab_peak / 1e6:,.0f}",
            f"{row.store_bytes / 1e6:,.0f}",
            f"{row.first_step:.1f}",
            f"{row.train_peak / 1e6:,.0f}",
            f"{row.tokens_a_second:,.0f}",
        )
        for row in rows
    ]
    return markdown_table(head, lines)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""What it takes to clean a big corpus: pairs a second, and the memory of each process.

    python -m benchmarks.cleaning --tatoeba deu.txt --sizes 1000000 3000000 10000000

For each size: writes as many pairs, real ones that are repeated and joined to others, and runs
``transformer-cli clean`` on them. ``--source`` runs another checkout's too, to compare with; what
both write is compared as well. Ten million pairs take 4 GB. Not part of ``make bench``.
"""

import argparse
import filecmp
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.rounds import markdown_table
from transformer_cli.data.corpus import ParallelFiles

CONFIG = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{{src: {directory}/all.de, tgt: {directory}/all.en}}]
  filters: [{filters}]
  split: {{val: 1000, test: 1000}}
tokenizer: {{kind: words}}
"""
FILTERS = "identical, script, markup, numbers, length, length_ratio, duplicates, duplicates_folded"
_TICK = 0.1


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleaning", description=__doc__)
    parser.add_argument("--tatoeba", type=Path, required=True, help="table of English and German")
    parser.add_argument("--sizes", type=int, nargs="+", default=(1_000_000,), help="pairs of each")
    parser.add_argument("--source", type=Path, help="another checkout, with an environment")
    parser.add_argument("--filters", default=FILTERS, help="which are on")
    parser.add_argument("--directory", type=Path, default=Path("/tmp/cleaning"), help="to work in")
    options = parser.parse_args(arguments)
    real = read_real_pairs(options.tatoeba)
    head = ("pairs", "checkout", "s", "pairs a second", "CPU s", "peak of a process, MB", "of all")
    rows = []
    for pairs in options.sizes:
        directory = options.directory.resolve() / str(pairs)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        write_pairs(directory, real, pairs)
        config = directory / "corpus.yaml"
        config.write_text(CONFIG.format(directory=directory, filters=options.filters))
        for source in filter(None, (Path.cwd(), options.source)):
            measured = measure(source, config, directory / f"out-{source.name}")
            rows.append((f"{pairs:,}", str(source), *measured))
            print(markdown_table(head, rows), flush=True)
        if options.source:
            ours, theirs = (directory / f"out-{each.name}" for each in (Path.cwd(), options.source))
            names = sorted(path.name for path in ours.iterdir())
            print("differing:", filecmp.cmpfiles(ours, theirs, names, shallow=False)[1:])
        shutil.rmtree(directory)


def read_real_pairs(tatoeba: Path) -> list[tuple[str, str]]:
    """Return Tatoeba's pairs and, if ``MULTI30K_DIR`` is set, Multi30k's."""
    rows = (line.split("\t") for line in tatoeba.read_text(encoding="utf-8").splitlines())
    pairs = [(row[1], row[0]) for row in rows]
    if directory := os.environ.get("MULTI30K_DIR"):
        paths = (Path(directory) / f"train.{language}.gz" for language in ("de", "en"))
        pairs += ParallelFiles(*paths).pairs()
    return pairs


def write_pairs(directory: Path, real: Sequence[tuple[str, str]], pairs: int) -> None:
    """Write so many pairs, a fifth as they are and the others joined to another."""
    draw = random.Random(1)
    with (directory / "all.de").open("w") as src_file, (directory / "all.en").open("w") as tgt_file:
        for _ in range(pairs):
            src, tgt = real[int(draw.random() * len(real))]
            if draw.random() < 0.8:
                other = real[int(draw.random() * len(real))]
                src, tgt = f"{src} {other[0]}", f"{tgt} {other[1]}"
            src_file.write(f"{src}\n")
            tgt_file.write(f"{tgt}\n")


def measure(source: Path, config: Path, out: Path) -> tuple[str, ...]:
    """Run ``clean`` of a checkout; return its row of the table."""
    pairs = sum(1 for _ in (config.parent / "all.de").open("rb"))
    begin = time.monotonic()
    process = psutil.Popen(
        [source / ".venv/bin/python", "-P", "-m", "transformer_cli", "clean", config, "-o", out],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.DEVNULL,
    )
    peaks: dict[int, int] = {}
    cpu: dict[int, float] = {}
    while process.poll() is None:
        for each in (process, *process.children(recursive=True)):
            try:
                peaks[each.pid] = max(peaks.get(each.pid, 0), each.memory_info().rss)
                cpu[each.pid] = sum(each.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        time.sleep(_TICK)
    seconds = time.monotonic() - begin
    if process.returncode:
        sys.exit(process.returncode)
    sizes = f"{max(peaks.values()) / 1e6:,.0f}", f"{sum(peaks.values()) / 1e6:,.0f}"
    return f"{seconds:.1f}", f"{pairs / seconds:,.0f}", f"{sum(cpu.values()):.1f}", *sizes


if __name__ == "__main__":
    main()

"""What a second process brings on one machine: torchrun's two against one with both cores.

    python -m benchmarks.ranks --steps 150 --rounds 2

Both train configs/multi30k_de_en_bpe.yaml on as many threads in all and with as many batches a
step, so that they make the same weights: one process that sums two batches on all threads, and two
processes of one batch each on half of them. Speeds are those from step 50 on, by metrics.jsonl.
Not part of ``make bench``. Run it alone on the machine.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table

CONFIG = ROOT / "configs" / "multi30k_de_en_bpe.yaml"
DIRECTORY = WORKSHOP / "ranks"
_PROGRAM = ("-m", "transformer_cli")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=150, help="optimizer steps; over 100")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    contestants = {
        f"1 process, {threads} threads": (1, threads, 2),
        f"2 processes, {threads // 2} threads each": (2, threads // 2, 1),
    }
    prepared = DIRECTORY / "prepared"
    _run([sys.executable, *_PROGRAM, "vocab", str(CONFIG), "--run-dir", str(prepared)], threads)
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, contestant in contestants.items():
            speeds[name].append(_speed(prepared, *contestant, steps=arguments.steps))
    shutil.rmtree(DIRECTORY)
    medians = {name: statistics.median(each) for name, each in speeds.items()}
    base = next(iter(medians.values()))
    print(report_head("python -m benchmarks.ranks"))
    rows = [
        (name, f"{speed:,.0f}", f"{speed / base:.2f}", ", ".join(f"{e:,.0f}" for e in speeds[name]))
        for name, speed in medians.items()
    ]
    print(markdown_table(("", "target tokens/s", "of one process", "each round"), rows))


def _speed(prepared: Path, processes: int, threads: int, accumulate: int, steps: int) -> float:
    """Target tokens a second of the steps after the first 50."""
    run = DIRECTORY / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(prepared, run)
    torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
    # No validation: it would be in the time.
    settings = {"accumulate": accumulate, "max_steps": steps, "validate_every": 10 * steps}
    _run(
        [
            sys.executable,
            *(torchrun if processes > 1 else ()),
            *_PROGRAM,
            "train",
            str(CONFIG),
            f"--run-dir={run}",
            f"--threads={threads}",
            *(f"--set=training.{key}={value}" for key, value in settings.items()),
        ],
        threads,
    )
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    first, *others = [each for each in map(json.loads, lines) if each["kind"] == "train"]
    tokens = sum(each["tgt_tokens"] for each in others)
    return float(tokens / (others[-1]["seconds"] - first["seconds"]))


def _run(command: Sequence[str], threads: int) -> None:
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})


if __name__ == "__main__":
    main()

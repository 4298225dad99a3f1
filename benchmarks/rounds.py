"""Contestants by turns: each measures itself in a process of its own and prints one JSON object."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.environments import ROOT

THREADS = 2
"""Of every contestant."""

Result = dict[str, Any]


def run_rounds(contestants: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Result]]:
    """Run all contestants once a round, so that a slow spell of the machine hits each of them.

    Args:
        contestants: by name, the command of a process whose last line on standard output is one
            JSON object; it runs in the checkout.
        rounds: how often each of them runs.

    Returns:
        by name, the JSON object of each round.

    Raises:
        SystemExit: a contestant failed, or said something else.
    """
    results: dict[str, list[Result]] = {name: [] for name in contestants}
    for number in range(1, rounds + 1):
        for name, command in contestants.items():
            print(f"round {number} of {rounds}: {name}", file=sys.stderr, flush=True)
            result = _run(name, command)
            print(f"  {json.dumps(result)}", file=sys.stderr, flush=True)
            results[name].append(result)
    return results


def _run(name: str, command: Sequence[str]) -> Result:
    process = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{name}: ended with status {process.returncode}; see above")
    last = (process.stdout.splitlines() or [""])[-1]
    try:
        result = json.loads(last)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise SystemExit(f"{name}: expected a JSON object as the last line, found {last!r}")
    return result


def median_of(results: Sequence[Mapping[str, Any]], key: str) -> float:
    """The median over one contestant's rounds of the number called ``key``."""
    return median([float(result[key]) for result in results])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column holds names and whose other columns hold numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))

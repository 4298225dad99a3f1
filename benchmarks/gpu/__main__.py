"""Measure all parts: ``python -m benchmarks.gpu --out DIR``.

Writes DIR/results.jsonl, a line as each part ends; DIR/report.md, a section for docs/benchmarks.md;
and DIR/log.txt, all that the parts print. It ends within ten minutes.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environments import WORKSHOP
from benchmarks.gpu.parts import PARTS, find_part
from benchmarks.gpu.report import render, summarize
from benchmarks.gpu.runner import Outcome, child_command, run_parts
from benchmarks.machine import report_head

if TYPE_CHECKING:
    import torch

_TOTAL = 560.0  # seconds: a machine with a GPU may be lent for commands of ten minutes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code: 1 if a part did not come to its end.

    Args:
        arguments: as on the command line; None takes those.
    """
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="only see that the benchmark works")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the report")
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the corpus and the run")
    parser.add_argument("--part", choices=names, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    # Absolute: a part runs in the checkout, wherever this process does.
    work = (options.work or WORKSHOP / ("gpu-small" if options.small else "gpu")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if options.part:
        measure_part(options.part, options.device, options.small, work, options.rows)
        return 0
    if options.out is None:
        parser.error("--out: name a directory for the report")
    given = sys.argv[1:] if arguments is None else arguments
    return _measure_all(options, work, " ".join(given))


def _measure_all(options: argparse.Namespace, work: Path, given: str) -> int:
    from benchmarks.gpu.setting import Setting

    setting = Setting(_choose_device(options.device), options.small, work)
    remark = "On the toy corpus, not Multi30k." if setting.uses_toy else ""
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "log.txt").unlink(missing_ok=True)
    command = child_command(options.device, options.small, work)
    head = report_head(f"python -m benchmarks.gpu {given}")
    outcomes: list[Outcome] = []
    parts = [find_part(name) for name in options.parts]
    for outcome in run_parts(parts, command, options.device == "cuda", _TOTAL, options.out):
        outcomes.append(outcome)
        print(summarize([outcome]), flush=True)
        # After each part: what kills this process must not take the report with it.
        report = render(head, outcomes, remark)
        (options.out / "report.md").write_text(report, encoding="utf-8")
    print(f"\n{report}")
    return 0 if all(each.ok or each.note.startswith("skipped") for each in outcomes) else 1


def _choose_device(name: str) -> "torch.device":
    from transformer_cli.base.errors import UsageError
    from transformer_cli.model.device import choose_device

    try:
        return choose_device("cuda" if name == "cuda" else "cpu")
    except UsageError as error:
        raise SystemExit(str(error)) from error


def measure_part(name: str, device: str, small: bool, work: Path, rows: Path) -> None:
    """Measure one part in this process; append its rows to a file, each as it is measured."""
    from benchmarks.gpu.setting import Setting

    setting = Setting(_choose_device(device), small, work)
    measure = import_module(f"benchmarks.gpu.{name}").measure
    with rows.open("a", encoding="utf-8") as file:
        for row in measure(setting):
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    sys.exit(main())

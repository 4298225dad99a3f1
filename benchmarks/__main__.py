"""All benchmarks, one after the other: ``python -m benchmarks``."""

from importlib import import_module

from benchmarks.environments import WORKSHOP
from benchmarks.machine import report_head

SECTIONS = ("training", "decoding", "end_to_end", "contention")
"""Modules whose ``main`` takes a list of arguments and gives a section of Markdown."""


def main() -> None:
    """Write the report, and show it."""
    benchmarks = [import_module(f"benchmarks.{name}") for name in SECTIONS]
    report = f"# Benchmarks\n\n{report_head('make bench')}\n"
    path = WORKSHOP / "report.md"
    path.parent.mkdir(exist_ok=True)
    for benchmark in benchmarks:
        report += f"\n{benchmark.main([])}\n"
        path.write_text(report, encoding="utf-8")  # what is measured stays if a later one fails
    print(report, end="")


if __name__ == "__main__":
    main()

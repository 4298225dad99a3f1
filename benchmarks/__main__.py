"""All benchmarks, one after the other: ``python -m benchmarks``."""

from importlib import import_module

from benchmarks.environments import WORKSHOP
from benchmarks.machine import report_head

SECTIONS = ("training", "decoding")
"""Modules whose ``main`` takes a list of arguments and gives a section of Markdown."""


def main() -> None:
    """Write the report, and show it."""
    benchmarks = [import_module(f"benchmarks.{name}") for name in SECTIONS]
    head = f"# Benchmarks\n\n{report_head('make bench')}"
    report = "\n\n".join([head, *[benchmark.main([]) for benchmark in benchmarks]])
    path = WORKSHOP / "report.md"
    path.write_text(report + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()

"""The tests that need a GPU."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.environments import ROOT
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting


def measure(setting: Setting) -> Iterator[Row]:
    """Yield pytest's closing line, and a row for each test that failed."""
    # Only their files are collected: others may import what is not installed on a bare machine.
    marked = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.gpu" in path.read_text(encoding="utf-8")
    )
    command = (sys.executable, "-m", "pytest", "-m", "gpu", "-rfE", "-p", "no:cacheprovider")
    process = subprocess.run(
        (*command, *marked), cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=False
    )
    print(process.stdout)  # for the log
    lines = process.stdout.splitlines() or [f"ended with {process.returncode}, saying nothing"]
    yield {"tests": lines[-1].strip("= ")}
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            yield {"not passed": line[:200]}

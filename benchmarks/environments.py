"""Virtual environments for the other programs, whose requirements are not ours."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""
WORKSHOP = ROOT / ".bench"
"""Where benchmarks keep environments, data and their report; ignored by git."""


def environment(name: str) -> Path:
    """The Python of a virtual environment, which is made if it is missing or out of date.

    Args:
        name: of ``benchmarks/peers/NAME.txt``, which pins what is installed.
    """
    requirements = ROOT / "benchmarks" / "peers" / f"{name}.txt"
    home = WORKSHOP / name
    python = home / "bin" / "python"
    installed = home / requirements.name
    wanted = requirements.read_bytes()
    if not installed.is_file() or installed.read_bytes() != wanted:
        print(f"making the environment {home}", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements))
        installed.write_bytes(wanted)  # last, so that an environment with it is complete
    return python


def _run(*command: str) -> None:
    # What a tool prints is for the person who waits; standard output is for the report.
    subprocess.run(command, check=True, stdout=sys.stderr)

"""Modules of extensions read files as the core does, but for these."""

from pathlib import Path

from faults.test_foreign_directory import reads

from transformer_cli import extensions

# Of files that are the program's or the system's own, or that were made just now.
READ_OTHERWISE = {
    "bench/machine.py",  # /proc/cpuinfo
    "observers/memory.py",  # /proc and limits of control groups
    "report/rendering.py",
    "ctranslate2/trial.py",  # what was just converted, in a child process
    "exchange/weights.py",
    # What it has just written itself.
    "corpora/preparing.py",
}


def test_no_module_reads_files_in_another_way() -> None:
    package = Path(extensions.__path__[0])
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if reads(path)}
    assert found == {name for name in READ_OTHERWISE if (package / name).is_file()}

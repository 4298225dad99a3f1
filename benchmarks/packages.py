"""What a plain install brings: size and import time of each needed package.

``python -m benchmarks.packages``, by the Python of an environment that has transformer-cli without
extras, prints them as a table.
"""

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from statistics import median

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.machine import report_head

MODULES = {
    "pydantic": ("pydantic.main",),  # the package alone imports lazily
    "pyyaml": ("yaml",),
    "sacrebleu": ("sacrebleu.metrics.bleu", "sacrebleu.metrics.chrf", "sacrebleu.metrics.ter"),
    "safetensors": ("safetensors.torch",),
    "tensorboard": (
        "tensorboard.compat.proto.event_pb2",
        "tensorboard.summary.writer.record_writer",
    ),
    "rich": ("rich.console", "rich.live", "rich.table"),
}
"""What we import of a package, where it is not the module of its name."""
ROUNDS = 5


def _needed(name: str) -> set[str]:
    """Return what a distribution needs here, the extras that it asks of others included."""
    wanted = Requirement(name)
    environments = [{"extra": extra} for extra in (wanted.extras or {""})]
    return {
        str(need)
        for need in map(Requirement, distribution(wanted.name).requires or ())
        if need.marker is None or any(map(need.marker.evaluate, environments))
    }


def _closure(requirements: Iterable[str]) -> set[str]:
    """Return the names of all distributions that these requirements bring."""
    names: set[str] = set()
    left, seen = list(requirements), set(requirements)
    while left:
        requirement = left.pop()
        names.add(canonicalize_name(Requirement(requirement).name))
        new = _needed(requirement) - seen
        seen |= new
        left += new
    return names


def _size(package: Distribution) -> int:
    """Return the bytes that its files take on the disk."""
    paths = [Path(str(path.locate())) for path in package.files or ()]
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def _import_time(modules: Iterable[str], before: Iterable[str] = ("site",)) -> float:
    """Return the seconds to import modules in a new process, after those that come before."""
    names = [*before, *modules]
    driver = "".join(f"import {name}\n" for name in names)
    times = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-X", "importtime", "-c", driver]
        lines = subprocess.run(command, capture_output=True, check=True, text=True).stderr
        entries = [line.removeprefix("import time:").split("|") for line in lines.splitlines()[1:]]
        loaded = [entry[2].strip() for entry in entries]
        started = max(loaded.index(name) for name in before)
        times.append(sum(int(entry[0]) for entry in entries[started + 1 :]) / 1e6)
    return median(times)


def main() -> None:
    """Print the table."""
    direct = _needed("transformer-cli")
    everything = _closure(direct)
    rows = []
    for requirement in direct:
        name = canonicalize_name(Requirement(requirement).name)
        brought = everything - _closure(direct - {requirement})
        size = sum(_size(distribution(each)) for each in brought)
        own = _size(distribution(name))
        modules = MODULES.get(name, (name,))
        seconds = _import_time(modules), _import_time(modules, ["torch"]) if name != "torch" else 0
        rows.append((size, own, name, len(brought - {name}), *seconds))
    print(report_head("python -m benchmarks.packages"))
    print("\n| package | MB | with what it alone brings | import, s | after torch |")
    print("|---|---|---|---|---|")
    for size, own, name, others, alone, after in sorted(rows, reverse=True):
        brings = f"{size / 1e6:.1f} ({others} more)" if others else f"{size / 1e6:.1f}"
        print(f"| {name} | {own / 1e6:.1f} | {brings} | {alone:.2f} | {after:.2f} |")
    total = sum(_size(distribution(each)) for each in everything)
    print(f"\n{len(everything)} packages, {total / 1e6:.0f} MB")


if __name__ == "__main__":
    main()

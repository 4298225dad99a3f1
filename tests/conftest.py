"""What all tests share: checked shapes, few threads, fixed seeds, and marks that skip."""

import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import children
import jaxtyping
import pytest
import spared as spared
import torch
from children import pytest_sessionfinish as pytest_sessionfinish
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell script's background job; whatever the tests start would ignore it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Not the user's, and inherited by all processes that tests start; it goes with this process.
_CACHE = tempfile.TemporaryDirectory(prefix="transformer-cli-tests-", ignore_cleanup_errors=True)
os.environ["TRANSFORMER_CLI_CACHE"] = str(Path(_CACHE.name) / "transformer-cli")

# Before any test imports these modules: their shape annotations are checked from here on. A machine
# that is lent for its GPU may have no beartype; the checks are then left out.
if importlib.util.find_spec("beartype") is not None:
    jaxtyping.install_import_hook(
        [
            "transformer_cli.model",
            "transformer_cli.training.loss",
            "transformer_cli.inference.search",
        ],
        "beartype.beartype",
    )


from transformer_cli.model.device import bound_kernel_caches  # noqa: E402 - after the hook

# Each shape has kernels of its own: by the last test, they would take a gigabyte of each worker.
bound_kernel_caches()


class _ShapeChecks(type(jaxtyping.config)):  # type: ignore[misc]
    """Checks the shapes of as many calls as are left: they take two thirds of a search's time."""

    left: int = sys.maxsize

    @property
    def jaxtyping_disable(self) -> bool:
        self.left -= 1
        return self.left < 0


_CHECKED_CALLS = 60
"""The first steps of a search: the functions are all called by then."""
jaxtyping.config.__class__ = _ShapeChecks
_shape_checks: Any = jaxtyping.config

_HAS_GPU = torch.cuda.is_available()

# No test fails for being slow on a busy machine.
settings.register_profile("all", deadline=None)
settings.register_profile("some", deadline=None, max_examples=25)


if sys.platform == "win32":
    # They import what POSIX alone has.
    collect_ignore = [
        f"faults/test_{name}.py"
        for name in ("disk", "hostile_models", "kill_anywhere", "resume_translation")
    ]

# The benchmarks are of the whole program; where an extension is missing, they are left out.
_TEXTS = (
    path.read_text(encoding="utf-8")
    for path in (Path(__file__).parents[1] / "benchmarks").rglob("*.py")
)
_USED = {name for text in _TEXTS for name in re.findall(r"transformer_cli\.extensions\.\w+", text)}
collect_ignore_glob = [] if all(map(importlib.util.find_spec, _USED)) else ["benchmarks/test_*.py"]


_IS_FIRST_CASE = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("some" if config.option.markexpr else "all")


@pytest.hookimpl(tryfirst=True)  # marks are added before pytest selects by them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        item.stash[_IS_FIRST_CASE] = name not in names
        names.add(name)
        if item.get_closest_marker("long_cases") and not item.stash[_IS_FIRST_CASE]:
            item.add_marker("long")
    if not _HAS_GPU:
        _skip(items, "gpu", "no CUDA device")
    if sys.platform == "win32":
        _skip(items, "posix", "Windows has no such signals, devices, permissions or links")
    if shutil.which("chromium") is None:
        _skip(items, "browser", "no Chromium (Debian's package chromium)")
    if not _multi30k_is_here(config.rootpath):
        _skip(items, "multi30k", "no Multi30k files in $MULTI30K_DIR or data/multi30k")


def _skip(items: list[pytest.Item], mark: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(mark):
            item.add_marker(pytest.mark.skip(reason=reason))


def _multi30k_is_here(root: Path) -> bool:
    directories = [root / "data/multi30k"]
    if from_user := os.environ.get("MULTI30K_DIR"):
        directories.append(Path(from_user))
    return any((directory / "train.de.gz").is_file() for directory in directories)


def pytest_xdist_auto_num_workers() -> int:
    """Of three workers, one waits: for a process, a cluster, a signal."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + cores // 2


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    if _HAS_GPU:
        torch.manual_seed(1)
    else:  # without looking for devices, which takes a millisecond
        torch.default_generator.manual_seed(1)


@pytest.fixture(autouse=True)
def _shapes_are_checked(request: pytest.FixtureRequest) -> None:
    """In each test's first case, and in all of the model's, as long as the calls last."""
    item = request.node
    is_checked = item.stash[_IS_FIRST_CASE] or item.path.parent.name == "model"
    _shape_checks.left = _CHECKED_CALLS if is_checked else 0
    if item.path.stem == "test_shape_checks" or not request.config.option.markexpr:
        _shape_checks.left = sys.maxsize


@pytest.fixture(autouse=True)
def _no_process_outlives_its_test() -> Iterator[None]:
    yield
    children.end_all()

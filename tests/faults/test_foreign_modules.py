"""Python files of a foreign working directory are imported by nothing that the program starts.

Their directory is searched by `python -m`, and where PYTHONPATH has an empty entry.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import Finished, run

import transformer_cli
from transformer_cli.base.child import leave_out_working_directory

pytestmark = pytest.mark.posix

HOSTILE = """\
import os
open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"ran-{__name__}"), "w").close()
raise SystemExit(99)
"""
# What starting interpreters import, multiprocessing, the libraries, and the program.
NAMES = (
    *(
        "sitecustomize",
        "usercustomize",
        "random",
        "tempfile",
        "socket",
        "pickle",
        "runpy",
        "typing",
    ),
    *("subprocess", "threading", "signal", "importlib", "json", "contextlib", "pathlib"),
    *("torch", "numpy", "tqdm", "sentencepiece", "typer", "yaml", "pydantic"),
    *("transformer_cli",),
)
SECONDS, MEMORY = 100, 8 << 30


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    directory = tmp_path / "foreign"
    directory.mkdir()
    for name in NAMES:
        (directory / f"{name}.py").write_text(HOSTILE)
    return directory


def attacked(start: Callable[[], None] | None = None) -> None:
    """Be as ``python -m transformer_cli`` after its start in such a directory.

    Args:
        start: called in place of a command.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["PYTHONPATH"] = os.pathsep.join(("", str(Path("/nowhere")), "."))
    sys.path.insert(0, str(Path.cwd()))
    if start is not None:
        leave_out_working_directory()
        start()
        sys.exit(0)


def assert_unharmed(finished: Finished, directory: Path) -> None:
    assert finished.code == 0, finished.err
    assert not [*directory.glob("ran-*")]


def test_the_encoding_of_training_text(training: Training, foreign: Path) -> None:
    command = ("vocab", training.config, "--run-dir", foreign / "run")
    assert_unharmed(run(*command, cwd=foreign, before=attacked_workers), foreign)
    assert [*foreign.glob("run/encoded/*")]


def attacked_workers() -> None:
    from transformer_cli.cli import options
    from transformer_cli.data import corpus
    from transformer_cli.training import preparation

    corpus.MIN_PAIRS_FOR_WORKERS = 1
    vars(preparation)["MIN_PAIRS_FOR_WORKERS"] = 1
    vars(options)["count_cores"] = lambda: 2
    attacked()


def check_a_model() -> None:
    from transformer_cli.base.errors import TokenizerError
    from transformer_cli.text.model_check import check_model

    with pytest.raises(TokenizerError, match="not a model of the sentencepiece library"):
        check_model(b"no model", Path("joint.model"), "")


def test_the_trial_of_a_model(foreign: Path) -> None:
    assert_unharmed(run(cwd=foreign, before=partial(attacked, check_a_model)), foreign)


OTHER = """\
import multiprocessing
from transformer_cli.base.child import leave_out_working_directory
from transformer_cli.base.packages import __version__
leave_out_working_directory()
with multiprocessing.get_context("spawn").Pool(1) as pool:
    find = __import__("pkgutil").resolve_name
    print(pool.apply(find, ["transformer_cli.base.packages:__version__"]))
"""


def test_a_child_is_of_the_package_that_started_it(tmp_path: Path) -> None:
    assert run_in_copy(OTHER, tmp_path) == "9.8.7\n"


def run_in_copy(script: str, tmp_path: Path) -> str:
    """Run a script by a copy of the package, of another version, and return what it prints."""
    package = Path(transformer_cli.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    copied = shutil.copytree(package, tmp_path / package.name, ignore=ignored)
    packages = copied / "base" / "packages.py"
    packages.write_text(packages.read_text().replace(f'"{transformer_cli.__version__}"', '"9.8.7"'))
    # A path of the user's would be searched before the working directory.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        timeout=SECONDS,
    )
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode()

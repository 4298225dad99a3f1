"""Each extension can be deleted with its tests, and so can all: the core works on."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import children
import pytest

from transformer_cli.base import registry

ROOT = Path(__file__).parents[1]
COPIED = (
    *("transformer_cli", "tests", "configs", "docs", "data/toy", "benchmarks", ".github"),
    *("pyproject.toml", "constraints.txt", "Makefile", "Dockerfile"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE"),
    *("mkdocs.yml", ".dockerignore"),
)
EXTENSIONS = sorted(
    path.parent.name for path in (ROOT / "transformer_cli" / "extensions").glob("*/manifest.py")
)
FEW_STEPS = ("--set", "training.max_steps=2")
PATIENCE = 3000.0

pytestmark = pytest.mark.skipif(not EXTENSIONS, reason="no extension is here")


def copy_without(extensions: Sequence[str], checkout: Path) -> Path:
    """Copy what is in the repository but for some extensions; return the copy."""
    for name in COPIED:
        source, target = ROOT / name, checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, ignore=ignored, symlinks=True)
        elif source.is_file():
            shutil.copy(source, target)
    for name in extensions:
        for path in (checkout / "configs").rglob("*.yaml"):
            if path.is_symlink() and f"/{name}/" in path.readlink().as_posix():
                path.unlink()
        for part in ("transformer_cli/extensions", "tests/extensions"):
            shutil.rmtree(checkout / part / name, ignore_errors=True)
        (checkout / "docs" / "extensions" / f"{name}.md").unlink(missing_ok=True)
    return checkout


def run(checkout: Path, directory: Path, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
    """Run Python with the package of a checkout; return what it prints, its errors if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = children.start([sys.executable, *arguments], env=environment, cwd=directory, **pipes)
    out, err = process.communicate(stdin, timeout=PATIENCE)
    assert process.returncode == code, (out + err).decode()[-4000:]
    return (err if code else out).decode()


def use(checkout: Path, directory: Path, removed: Sequence[str]) -> None:
    """Run the core's main commands, and those that are missing."""
    program = ("-m", "transformer_cli")
    where = run(
        checkout, directory, "-c", "import transformer_cli; print(transformer_cli.__file__)"
    )
    assert Path(where.strip()).is_relative_to(checkout)
    run(checkout, directory, *program, "init", "--from", "toy")
    run(checkout, directory, *program, "train", "configs/toy.yaml", *FEW_STEPS)
    scores = run(checkout, directory, *program, "evaluate", "runs/toy")
    assert scores.startswith("test: 200 sentences, ")
    lines = (directory / "data" / "toy" / "test.de").read_bytes().splitlines(keepends=True)[:3]
    out = run(checkout, directory, *program, "translate", "runs/toy", stdin=b"".join(lines))
    assert out.count("\n") == 3
    for name, entry in registry.entries("command").items():
        if entry.extension in removed:
            missing = run(checkout, directory, *program, name, code=2)
            assert f"error: {name}: no such command is installed; choose from init, " in missing
            assert missing.count("\n") == 1


def test_the_core_works_without_extensions(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    use(copy_without(EXTENSIONS, tmp_path / "checkout"), work, EXTENSIONS)


@pytest.mark.long
@pytest.mark.parametrize("removed", [*EXTENSIONS, "all"])
def test_the_tests_of_the_core_pass_without(removed: str, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    names = EXTENSIONS if removed == "all" else [removed]
    checkout = copy_without(names, tmp_path / "checkout")
    use(checkout, work, names)
    ignored = [f"--ignore=tests/{name}" for name in ("extensions", Path(__file__).name)]
    run(checkout, checkout, "-m", "pytest", "-x", "-p", "no:cacheprovider", *ignored)

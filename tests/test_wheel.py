"""A wheel, built from the sdist and installed alone, does what the README begins with."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import children
import pytest
from documents.commands import ROOT, Command, commands

BUILT_FROM = (
    *("pyproject.toml", "README.md", "LICENSE"),
    *("transformer_cli", "configs", "data/toy"),
)
BUILD_SDIST = "import sys; from hatchling import build; build.build_sdist(sys.argv[1])"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
FEW_STEPS = ("--set", "training.max_steps=2")
PATIENCE = 300.0


def call(*command: str | Path, cwd: Path, site: Path | None = None, stdin: bytes = b"") -> str:
    """Run a command to its end, with the packages in ``site`` but not those of the checkout."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = children.start(command, env=environment, cwd=cwd, **pipes)
    out, err = process.communicate(stdin, timeout=PATIENCE)
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that has the program's wheel installed, and nothing else."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    for name in BUILT_FROM:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, source / name)
    call(sys.executable, "-c", BUILD_SDIST, work, cwd=source)
    (sdist,) = work.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    shutil.rmtree(source)
    unpacked = work / sdist.name.removesuffix(".tar.gz")
    call(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", work, unpacked, cwd=work)
    (wheel,) = work.glob("*.whl")
    call(*PIP, "install", "--no-deps", "--target", work / "site", wheel, cwd=work)
    shutil.rmtree(unpacked)
    return work / "site"


def five_minutes() -> list[Command]:
    """Return the README's commands from the first to its first ``evaluate``, each once."""
    found = commands(ROOT / "README.md")
    shown = list({command.arguments: command for command in found}.values())
    last = next(n for n, command in enumerate(shown) if command.arguments[0] == "evaluate")
    return shown[: last + 1]


def test_the_wheel_has_the_package_and_what_is_shipped(site: Path) -> None:
    def files(directory: Path, *patterns: str) -> set[str]:
        found = (path for pattern in patterns for path in directory.rglob(pattern))
        return {path.relative_to(directory).as_posix() for path in found if path.is_file()}

    package, shipped = site / "transformer_cli", site / "transformer_cli" / "shipped"
    kinds = ("*.py", "py.typed", "*.html", "*.css", "*.js", "*.md")
    assert files(package, *kinds) == files(ROOT / "transformer_cli", *kinds)
    links = {path.name for path in (ROOT / "configs").glob("*") if path.is_symlink()}
    configs = {path.name for path in (ROOT / "configs").glob("*.*")}
    assert files(shipped / "configs", "*") == configs - links
    added = Path("transformer_cli", "extensions")
    assert files(site / added, "*.yaml") == files(ROOT / added, "*.yaml")
    assert files(shipped / "data" / "toy", "*") == files(ROOT / "data" / "toy", "*.de", "*.en")
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {
        "bin",
        "transformer_cli",
    }


@pytest.mark.long
def test_the_five_minutes_work_in_an_empty_directory(site: Path, tmp_path: Path) -> None:
    where = "import transformer_cli; print(transformer_cli.__file__)"
    found = call(sys.executable, "-c", where, cwd=tmp_path, site=site)
    assert Path(found.strip()) == site / "transformer_cli" / "__init__.py"
    followed = five_minutes()
    names = [command.arguments[0] for command in followed]
    assert set(names) == {"init", "train", "translate", "evaluate"}
    for command in followed:
        stdin = call("bash", "-c", command.feeding, cwd=tmp_path) if command.feeding else ""
        few = FEW_STEPS if command.arguments[0] == "train" else ()
        out = call(
            *(site / "bin" / "transformer-cli", *command.arguments, *few),
            cwd=tmp_path,
            site=site,
            stdin=stdin.encode(),
        )
        assert out.count("\n") == 1 or command.arguments[0] != "translate"
    assert out.startswith("test: 200 sentences, greedy, step 2\n")
    assert (tmp_path / "data" / "toy" / "train.de").is_file()

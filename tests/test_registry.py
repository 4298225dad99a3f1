"""Manifests of extensions, as they should be and otherwise, of this package and of others."""

import re
import sys
from collections.abc import Iterator
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli import process

import transformer_cli
from transformer_cli.base import registry

MANIFEST = """\
api = 1
provides = {"command": {"greet": {"load": "command:greet"}}}
"""
COMMAND = '''\
"""A command of another package."""


def greet(name: str, times: int = 1) -> None:
    """Greet somebody.

    Politely.
    """
    for _ in range(times):
        print("Good day,", name)
'''


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that says by an entry point that it has extensions."""
    package, about = tmp_path / "friendly", tmp_path / "friendly-1.0.dist-info"
    for directory in (package, about):
        directory.mkdir()
    (package / "__init__.py").touch()
    (package / "manifest.py").write_text(MANIFEST)
    (package / "command.py").write_text(COMMAND)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: friendly\nVersion: 1.0\n")
    points = "[transformer_cli.extensions]\nfriendly = friendly.manifest\n"
    (about / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield package
    _forget()


def _forget() -> None:
    registry._others.cache_clear()
    registry._unusable.clear()
    for name in [name for name in sys.modules if name.startswith("friendly")]:
        del sys.modules[name]


def test_each_entry_of_the_manifests_can_be_loaded() -> None:
    interfaces = {name for manifest in registry._shipped().values() for name in manifest.provides}
    assert interfaces or not registry.installed()
    for interface in interfaces:
        for entry in registry.entries(interface).values():
            for fact in ("load", "settings"):
                if fact in entry.facts:
                    assert entry.load(fact) is not None


def test_a_name_that_no_extension_adds_to_the_package_is_no_attribute() -> None:
    installed = ", ".join(registry.installed()) or "none"
    with pytest.raises(AttributeError, match=f"'Reader'; installed extensions: {installed}"):
        transformer_cli.Reader  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Reader' from 'transformer_cli'"):
        from transformer_cli import Reader  # noqa: F401


OPTIONAL = {("corpora", "stores"), ("corpora", "report")}
"""Extensions that import another one where they have found out that it is here."""


def _needs() -> dict[str, set[str]]:
    return {name: set(getattr(each, "needs", ())) for name, each in registry._shipped().items()}


def test_what_an_extension_imports_is_what_its_manifest_says_that_it_needs() -> None:
    for name, needs in _needs().items():
        imported = {
            other
            for path in (registry._FOLDER / name).rglob("*.py")
            for other in re.findall(r"transformer_cli\.extensions\.(\w+)", path.read_text("utf-8"))
        }
        assert imported - {name} - {other for of, other in OPTIONAL if of == name} == needs, name


def test_extensions_import_each_other_one_way() -> None:
    imports = _needs()
    for name, other in OPTIONAL:
        imports.get(name, set()).add(other)
    TopologicalSorter(imports).prepare()  # raises a CycleError


def test_no_two_extensions_give_one_name_to_an_interface() -> None:
    given = [
        (interface, name)
        for manifest in registry._shipped().values()
        for interface, added in manifest.provides.items()
        for name in added
    ]
    assert len(given) == len(set(given))


def test_another_package_is_looked_in_for_unknown_names_only(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = SimpleNamespace(
        __name__="transformer_cli.extensions.own.manifest", provides={"command": {"wave": {}}}
    )
    monkeypatch.setattr(registry, "_shipped", lambda: {"own": own})
    assert registry.find("command", "wave") is not None
    assert "friendly.manifest" not in sys.modules
    entry = registry.find("command", "greet")
    assert entry is not None
    assert "friendly.command" not in sys.modules
    assert entry.load().__name__ == "greet"
    assert "friendly" not in registry.installed()


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("api = 2\nprovides = {}\n", "friendly is for version 2 of the interfaces, not 1"),
        (
            'api = 1\nrequires = ("nowhere.at_all", "sys")\n',
            "friendly needs packages that are not installed: nowhere.at_all",
        ),
    ],
)
def test_an_extension_that_does_not_fit_is_named_where_it_is_missed(
    manifest: str, reason: str, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (other / "manifest.py").write_text(manifest)
    assert registry.find("command", "greet") is None
    said = registry.describe_missing("command", "greet")
    here = ", ".join(registry.installed()) or "none"
    assert said.startswith(f"greet: no such command is installed; installed extensions: {here}; ")
    assert reason in said
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "api = 1\n",
        "api = 1\nprovides = {'command': ['greet']}\n",
        "api =\n",
        "import nowhere\n",
    ],
)
def test_a_broken_manifest_of_another_package_is_a_warning(
    manifest: str, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (other / "manifest.py").write_text(manifest)
    assert registry.find("command", "greet") is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: extension friendly is left out: ")


def _look_in(directory: Path) -> None:
    sys.path.insert(0, str(directory))


def test_a_command_of_another_package_is_run(other: Path) -> None:
    look = partial(_look_in, other.parent)
    finished = process.run("greet", "Anna", "--times", "2", before=look)
    assert (finished.code, finished.out, finished.err) == (0, "Good day, Anna\n" * 2, "")
    assert "Politely." in process.run("greet", "--help", before=look).out


def test_an_unknown_command_is_one_line_with_what_is_installed() -> None:
    said = "frobnicate: no such command is installed; choose from init, config, vocab, train, "
    process.assert_refused(process.run("frobnicate"), 2, said)
    process.assert_refused(process.run("trian"), 2, "; did you mean 'train'?")


def test_an_extension_without_one_that_it_imports_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifests = {
        "a": SimpleNamespace(api=1, provides={}),
        "b": SimpleNamespace(api=1, provides={}, needs=("a",)),
        "c": SimpleNamespace(api=1, provides={}, needs=("b",)),
    }
    monkeypatch.setattr(registry, "_read", lambda path: manifests[path.parent.name])
    for present, usable in (("abc", ["a", "b", "c"]), ("bc", []), ("ac", ["a"])):
        paths = [Path(name) / "manifest.py" for name in present]
        monkeypatch.setattr(registry, "_FOLDER", SimpleNamespace(glob=lambda _, found=paths: found))
        assert list(registry._shipped.__wrapped__()) == usable
    assert registry._unusable["c"] == "needs extensions that are not usable: b"
    registry._unusable.clear()

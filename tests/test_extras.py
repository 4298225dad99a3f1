import gc
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.base.packages import import_extra, no_collection


def test_what_is_installed_is_imported() -> None:
    assert import_extra("json.decoder", "export", "export").__name__ == "json.decoder"


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(
        MissingExtraError, match=r"report: needs the package nowhere_to_be_found"
    ) as error:
        import_extra("nowhere_to_be_found.part", "report", "report")
    assert str(error.value).endswith("; pip install 'jinja2>=3.1' 'plotly>=6.0'")


def test_where_nothing_is_known_of_the_extra_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_metadata(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", no_metadata)
    with pytest.raises(MissingExtraError, match=r"; pip install 'nowhere_to_be_found'$"):
        import_extra("nowhere_to_be_found.part", "report", "report")


def test_what_an_installed_package_lacks_is_not_blamed_on_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        import_extra("half_installed", "report", "report")


def test_garbage_is_looked_for_again_after_an_import() -> None:
    with no_collection():
        with pytest.raises(MissingExtraError):
            import_extra("nowhere_to_be_found", None, "report")
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(MissingExtraError):
        import_extra("nowhere_to_be_found", None, "report")
    assert gc.isenabled()


def test_the_extra_all_has_every_other() -> None:
    pyproject = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(pyproject)["project"]["optional-dependencies"]
    [everything] = map(Requirement, extras.pop("all"))
    assert (everything.name, everything.extras) == ("transformer-cli", extras.keys())

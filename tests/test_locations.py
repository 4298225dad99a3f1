"""Locations: whoever an extension registers for a scheme reads and writes its paths."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import MissingExtraError
from transformer_cli.base.files import read_small, sha256
from transformer_cli.base.locations import (
    Location,
    UrlPath,
    find_files,
    hide_credentials,
    is_here,
    is_local,
    text_path,
    versions,
)
from transformer_cli.base.text_files import open_text
from transformer_cli.data.corpus import mtime_key_of


class Fake(Location):
    """Bytes in a dictionary."""

    def __init__(self) -> None:
        self.kept = {"fake://a/1.txt": b"one\n", "fake://a/2.txt": b"two\n"}

    def open(self, path: Path, once: bool = False) -> BinaryIO:
        return io.BytesIO(self.kept[str(path)])

    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        return [str(self.kept.get(str(path))) for path in paths]

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        return tuple(map(UrlPath, sorted(self.kept)))


FAKE = Fake()


def only(monkeypatch: pytest.MonkeyPatch, provides: dict[str, object]) -> None:
    """Let there be only one extension, whose modules lie here."""
    manifest = ModuleType("fake_extension.manifest")
    vars(manifest).update(api=registry.API, provides=provides)
    monkeypatch.setattr(registry, "_shipped", lambda: {"fake": manifest})
    monkeypatch.setitem(sys.modules, "fake_extension.places", sys.modules[__name__])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, {"location": {"fake": {"load": "places:FAKE"}}})


@pytest.mark.usefixtures("fake")
def test_a_registered_location_stands_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"here\n")
    path = text_path("fake://a/1.txt")
    assert open_text(path).read() == read_small(path) == b"one\n"
    assert sha256(path) != sha256(Path("file"))
    assert versions([path, Path("nowhere")]) == ["b'one\\n'", None]
    assert mtime_key_of([path]) == "b'one\\n'"
    assert find_files(text_path("fake://a/*")) == (path, path.with_name("2.txt"))
    assert is_here(path)
    assert not is_local(path)


@pytest.mark.usefixtures("fake")
def test_a_scheme_that_nothing_provides_is_an_error() -> None:
    path = text_path("s3://bucket/x")
    assert not is_here(path)
    with pytest.raises(
        MissingExtraError, match=r"^s3://bucket/x: s3: no such .*; installed extensions: fake(;|$)"
    ):
        open_text(path)


def test_logins_are_hidden_also_where_nothing_fetches(fake: None) -> None:
    text = "me@host https://me:secret@host/a@b: cannot be read"
    assert hide_credentials(text) == "me@host https://…@host/a@b: cannot be read"
    assert hide_credentials("'s3://b/x?token=secret': gone") == "'s3://b/x?…': gone"

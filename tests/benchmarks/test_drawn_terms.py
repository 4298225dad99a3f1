"""A list of terms is drawn from what several packages say in the same way."""

import sys
from pathlib import Path

import pytest

from benchmarks import terms

ROWS = [
    ("a", "Folder", "_Ordner"),
    ("b", "Folder…", "Ordner…"),
    ("b", "Open", "Öffnen"),
    ("c", "Open folder %s of 3", "Ordner %s von 3 öffnen"),
    ("a", "Open a folder in the window", "Einen Ordner im Fenster öffnen"),
    ("a", "The folder is empty, is it?", "Der Ordner ist leer, oder?"),
    ("b", "No such folder in the list", "Kein solcher Ordner in der Liste"),
    ("b", "Window", "Fenster"),
    ("b", "The window is too small, sorry", "Das Fenster ist leider zu klein"),
]


def test_terms_are_what_two_packages_keep_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, made = tmp_path / "strings.tsv", tmp_path / "terms.tsv"
    table.write_text("origin\ten\tde\n" + "".join("\t".join(row) + "\n" for row in ROWS))
    command = ["terms", str(table), str(table), "-o", str(made), "--endings"]
    monkeypatch.setattr(sys, "argv", command)
    terms.main()
    # 'Open' begins or ends German sentences otherwise; two windows are too few.
    assert made.read_text() == "folder\tOrdner|Ordner*\n"
    assert "6 terms, of which references keep 100.0%" in capsys.readouterr().out

"""What is written of catalogs, and what is counted of their translations."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from transformer_cli.extensions.corpora.tables import TsvReader

polib = pytest.importorskip("polib")

MESSAGES = {
    "Open %s": "%s öffnen",
    "<b>Bold</b> & {name}\n": "<b>Fett</b> & {name}\n",
    "a\tb": "c\td",
    "escape \x1b": "no XML file holds this",
}


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for message, translation in MESSAGES.items():
        file.append(polib.POEntry(msgid=message, msgstr=translation))
    forms = {0: "%d Datei", 1: "%d Dateien"}
    file.append(polib.POEntry(msgid="%d file", msgid_plural="%d files", msgstr_plural=forms))
    file.save_as_mofile(str(tmp_path / "editor.mo"))
    return tmp_path / "editor.mo"


def test_all_formats_hold_the_same_strings(catalog: Path, tmp_path: Path) -> None:
    from benchmarks.debian_strings import read_catalog, write_tmx, write_tsv

    read = read_catalog("package", catalog)
    assert read.messages.metadata["Language"] == "de"
    del (wanted := dict(MESSAGES))["escape \x1b"]
    wanted |= {"%d file": "%d Datei", "%d files": "%d Dateien"}
    assert dict(read.pairs()) == wanted
    write_tmx([read], tmp_path / "x.tmx")
    units = ElementTree.parse(tmp_path / "x.tmx").iter("tu")
    assert dict([seg.text or "" for seg in unit.iter("seg")] for unit in units) == wanted
    write_tsv([read], tmp_path / "x.tsv")
    one_line = [tuple(" ".join(text.split()) for text in pair) for pair in wanted.items()]
    table = tmp_path / "x.tsv"
    found = TsvReader(table, (table,), 0.0, ("en", "de")).pairs()
    assert sorted((src.strip(), tgt.strip()) for src, tgt in found) == sorted(one_line)


def test_a_languages_only_form_translates_the_plural(tmp_path: Path) -> None:
    from benchmarks.debian_strings import read_catalog

    file = polib.POFile()
    forms = {0: "%d 個のファイル"}
    file.append(polib.POEntry(msgid="%d file", msgid_plural="%d files", msgstr_plural=forms))
    file.save_as_mofile(str(tmp_path / "editor.mo"))
    read = read_catalog("package", tmp_path / "editor.mo", "ja")
    assert list(read.pairs()) == [("%d files", "%d 個のファイル")]


def test_a_line_keeps_its_placeholders_or_not() -> None:
    from benchmarks.kept_placeholders import count_lines
    from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS

    src = ["plain", "%s and %s", "<b>x</b>", "{name}"]
    texts = {
        Path("ref"): ["", "%s und %s", "<b>y</b>", "{name}"],
        Path("hyp"): ["%s", "%s", *src[2:]],
    }
    texts[Path("hyp")][3] = "{{}"
    having, kept = count_lines(src, texts, GROUPS)
    assert having == [1, 2, 3]
    assert kept == {Path("ref"): {1, 2, 3}, Path("hyp"): {2}}
    assert count_lines(src, texts, ("braces",))[1][Path("hyp")] == set()

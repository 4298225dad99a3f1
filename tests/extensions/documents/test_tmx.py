"""TMX: units that lack the target language."""

from pathlib import Path

import pytest

from extensions.documents.fakes import filled, read
from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.document import Filling
from transformer_cli.extensions.documents.formats import read_document

TMX = """\
<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
<header srclang="en"/>
<body>
 <tu><tuv xml:lang="en-GB"><seg>Done.</seg></tuv><tuv xml:lang="de-AT"><seg>Fertig.</seg></tuv></tu>
 <tu>
  <tuv xml:lang="EN"><seg>Click <bpt i="1">&lt;b></bpt>here<ept i="1">&lt;/b></ept>.</seg></tuv>
  <tuv xml:lang="fr"><seg>Cliquez</seg></tuv>
 </tu>
 <tu><tuv xml:lang="en"><seg>A &amp; b</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>
 <tu><tuv xml:lang="fr"><seg>Rien</seg></tuv></tu>
</body>
</tmx>
"""
EXAMPLES = {".tmx": [TMX]}


def test_units_without_the_target_language_get_it(tmp_path: Path) -> None:
    data, result = filled(tmp_path / "x.tmx", TMX)
    new = (
        '\n  <tuv xml:lang="de-AT" creationtool="transformer-cli"><seg>CLICK <bpt i="1">&lt;b>'
        '</bpt>HERE<ept i="1">&lt;/b></ept>.</seg></tuv>'
    )
    expected = TMX.replace("Cliquez</seg></tuv>", f"Cliquez</seg></tuv>{new}")
    assert data.decode() == expected.replace("<seg/>", "<seg>A &amp; B</seg>")
    assert result.summary() == [
        "filled 2 of 2 segments (1 with tags or accelerators placed by alignments)"
    ]


def test_a_comment_is_a_note(tmp_path: Path) -> None:
    document = read(tmp_path / "x.tmx", TMX)
    written = document.write([None, Filling("a", comment="of x")]).decode()
    assert written == TMX.replace("<seg/>", "<note>of x</note><seg>a</seg>")


def test_a_memory_of_other_languages_is_refused(tmp_path: Path) -> None:
    text = TMX.replace('"en', '"da').replace('"EN"', '"da"')
    with pytest.raises(
        InputError, match=r"x\.tmx: units in '.*', but the run translates from 'en'"
    ):
        read(tmp_path / "x.tmx", text)


def test_variants_of_one_language_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx"
    path.write_text(
        '<tmx version="1.4"><header/><body><tu><tuv xml:lang="pt_BR"><seg>O ônibus.</seg></tuv>'
        '<tuv xml:lang="en"><seg>The bus.</seg></tuv></tu></body></tmx>'
    )
    document = read_document(path, ("pt-BR", "pt-PT"))
    assert [segment.text for segment in document.segments] == ["O ônibus."]
    written = document.write([Filling("O autocarro.")]).decode()
    assert '<tuv xml:lang="pt-PT" creationtool="transformer-cli"><seg>O autocarro.' in written


@pytest.mark.parametrize(
    "seg", ['<bpt i="1"/><ept i="1"/>', "<![CDATA[]]>", "<!-- x -->", "&#160;", "<hi> </hi>"]
)
def test_a_variant_without_text_is_filled(tmp_path: Path, seg: str) -> None:
    text = TMX.replace("<seg/>", f"<seg>{seg}</seg>")
    data, result = filled(tmp_path / "x.tmx", text)
    assert '<tuv xml:lang="de"><seg>A &amp; B</seg></tuv>' in data.decode()
    assert result.left == []

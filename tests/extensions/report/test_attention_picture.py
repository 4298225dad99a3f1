"""Pictures of attention: what is chosen, and words of any script and number."""

import logging
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib._text_helpers import layout
from matplotlib.font_manager import fontManager, get_font

from transformer_cli.base.writing import claim
from transformer_cli.extensions.report import attention_picture
from transformer_cli.extensions.report.attention_maps import AttentionMaps
from transformer_cli.extensions.report.attention_picture import (
    Panels,
    _find_fonts,
    draw,
    select_panels,
)

MAPS = AttentionMaps(
    ["▁Ein", "▁Hu", "nd", "<EOS>"],
    ["▁A", "▁dog", "<EOS>"],
    torch.rand(2, 3, 4, 4),
    torch.rand(2, 3, 3, 3),
    torch.rand(2, 3, 3, 4),
)


def draw_claimed(panels: Panels, path: Path) -> list[str]:
    with claim(path):
        return draw(panels, path)


def test_layers_are_means_of_heads_unless_asked_for() -> None:
    panels = select_panels(MAPS, "cross", None, None)
    assert panels.columns == ["Ein", "Hu", "nd", "(end)"]
    assert panels.rows == ["A", "dog", "(end)"]
    assert list(panels.weights) == ["layer 1", "layer 2"]
    assert panels.weights["layer 2"] == pytest.approx(MAPS.cross[1].mean(dim=0).numpy())
    one = select_panels(MAPS, "encoder", 2, 3)
    assert list(one.weights) == ["layer 2, head 3"]
    assert (one.weights["layer 2, head 3"] == MAPS.encoder[1, 2].numpy()).all()
    assert len(select_panels(MAPS, "cross", 1, None).weights) == 3
    assert len(select_panels(MAPS, "cross", None, 1).weights) == 2
    assert select_panels(MAPS, "decoder", None, None).columns == ["(begin)", "A", "dog"]


def test_any_script_and_any_sign_is_drawn_without_a_word(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["日本", "ქართ", "ሰላም", "$x_$", "\U0001f436", "\ufffe", "", "عربي"]
    caplog.set_level(logging.WARNING)
    draw_claimed(Panels(words, words, {"layer 1": np.eye(8)}), tmp_path / "x.png")
    assert not list(recwarn)
    assert not caplog.records


@pytest.fixture
def few_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what matplotlib brings: DejaVu, and Last Resort, which claims all characters."""
    own = Path(matplotlib.get_data_path())
    fonts = [font for font in fontManager.ttflist if Path(font.fname).is_relative_to(own)]
    assert any("Last Resort" in font.name for font in fonts)
    monkeypatch.setattr(fontManager, "ttflist", fonts)
    monkeypatch.setattr(attention_picture, "findSystemFonts", list)


def a_font(path: Path, name: str, letters: str) -> Path:
    """A font with a square for each of the letters."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(point)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(letter): "square" for letter in letters})
    builder.setupGlyf({".notdef": square, "square": square})
    builder.setupHorizontalMetrics({".notdef": (600, 0), "square": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": name, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


@pytest.mark.usefixtures("few_fonts")
def test_scripts_without_a_font_are_told(tmp_path: Path) -> None:
    words = ["ein", "日本", "こん", "ქართ", "1.", "हिन्दी", "(end)"]
    missing = draw_claimed(Panels(words, words, {"layer 1": np.eye(7)}), tmp_path / "x.png")
    assert missing == ["CJK", "DEVANAGARI", "HIRAGANA"]


@pytest.mark.usefixtures("few_fonts")
def test_a_font_that_has_the_letters_is_found_though_it_was_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [a_font(tmp_path / "a.ttf", "Kana Sans", "こん"), tmp_path / "broken.ttf"]
    paths[1].write_bytes(b"no font")
    monkeypatch.setattr(attention_picture, "findSystemFonts", lambda: list(map(str, paths)))
    words = ["ein", "こん", "ไทย"]
    assert draw_claimed(Panels(words, words, {"": np.eye(3)}), tmp_path / "x.svg") == ["THAI"]
    assert _find_fonts("xこん") == (["DejaVu Sans", "Kana Sans"], [])


@pytest.mark.usefixtures("few_fonts")
def test_of_fonts_for_han_characters_the_one_for_the_language_is_taken(tmp_path: Path) -> None:
    for region in ("HK", "JP", "KR", "SC"):
        name = f"Noto Sans CJK {region}"
        fontManager.addfont(a_font(tmp_path / f"{region}.ttf", name, "日の한"))
    fontManager.addfont(a_font(tmp_path / "serif.ttf", "A Serif CJK JP", "日の한"))
    for text, region in (("日", "SC"), ("日の", "JP"), ("日한", "KR")):
        assert _find_fonts(text)[0] == ["DejaVu Sans", f"Noto Sans CJK {region}"]


def test_arabic_letters_join_and_hebrew_runs_from_right_to_left() -> None:
    font = get_font(fontManager.findfont("DejaVu Sans"))

    def glyphs(text: str) -> list[int]:
        return [item.glyph_index for item in layout(text, font)]

    assert glyphs("שלום") == [font.get_char_index(ord(letter)) for letter in "םולש"]
    alone = [glyphs(letter)[0] for letter in "عرب"]
    assert not set(glyphs("عرب")) & {alone[0], alone[1]}


@pytest.mark.long
def test_long_sentences_make_no_giant_picture(tmp_path: Path) -> None:
    from matplotlib.image import imread

    words = [f"word{number}" for number in range(400)]
    draw_claimed(Panels(words, words, {"layer 1": np.eye(400)}), tmp_path / "x.png")
    height, width, _ = imread(tmp_path / "x.png").shape
    assert 1500 < height < 3500
    assert 1500 < width < 3500


@pytest.mark.long
def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_claimed(select_panels(MAPS, "cross", None, None), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()

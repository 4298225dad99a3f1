"""Pictures of attention: heat maps drawn by matplotlib."""

import math
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import (
    FontEntry,
    FontProperties,
    findSystemFonts,
    fontManager,
    get_font,
)

from transformer_cli.base.errors import UsageError
from transformer_cli.base.writing import whole_file
from transformer_cli.extensions.report.attention_maps import AttentionMaps

_FORMATS = ("png", "svg", "pdf")
# In inches.
_CELL, _GAP, _WIDEST = 0.24, 0.5, 16.0
_POINTS = 72
_DPI = 150
_SMALLEST_FONT = 4.0


@dataclass(frozen=True)
class Panels:
    """Heat maps of the same words; rows attend to columns."""

    rows: list[str]
    columns: list[str]
    weights: dict[str, np.ndarray]
    """The weights of each panel, by its caption: (row, column)."""


def picture_format(path: Path) -> str:
    """Return the format that a filename's ending names."""
    name = path.suffix.removeprefix(".").lower()
    if name not in _FORMATS:
        raise UsageError(f"{path}: ends in none of .png, .svg and .pdf; give it one of these")
    return name


def select_panels(
    maps: AttentionMaps,
    kind: Literal["cross", "encoder", "decoder"],
    layer: int | None,
    head: int | None,
) -> Panels:
    """Return the maps of a kind of attention to draw.

    ``layer`` and ``head`` count from 1. Without a layer, all layers are drawn; without a head, all
    heads of the given layer, or otherwise the mean of each layer's heads.

    Raises:
        UsageError: the model has no such layer or head.
    """
    weights = getattr(maps, kind).numpy()
    for name, number, most in (("layer", layer, len(weights)), ("head", head, weights.shape[1])):
        if number is not None and number > most:
            raise UsageError(f"{name} {number}: the model has {most}; give a number up to that")
    layers = range(len(weights)) if layer is None else [layer - 1]
    if head is None and layer is None:
        chosen = {f"layer {n + 1}": weights[n].mean(axis=0) for n in layers}
    else:
        heads = range(weights.shape[1]) if head is None else [head - 1]
        chosen = {f"layer {n + 1}, head {h + 1}": weights[n, h] for n in layers for h in heads}
    src, tgt = (
        [*(token.removeprefix("▁") or token for token in tokens[:-1]), "(end)"]
        for tokens in (maps.src_tokens, maps.tgt_tokens)
    )
    rows = src if kind == "encoder" else tgt
    columns = ["(begin)", *tgt[:-1]] if kind == "decoder" else src
    return Panels(rows, columns, chosen)


def draw(panels: Panels, path: Path) -> list[str]:
    """Write the picture, whole or not at all, in the format that its name has.

    Return the scripts that no installed font has, whose letters are drawn as boxes.
    """
    name = picture_format(path)
    families, missing = _find_fonts("".join((*panels.rows, *panels.columns)))
    figure = Figure(dpi=_DPI)
    FigureCanvasAgg(figure)
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "transformer-cli"}):
        warnings.simplefilter("ignore")  # about each letter that no font has
        _fill(figure, panels, families)
        with whole_file(path, is_named=True) as temporary:
            dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(name)
            figure.savefig(temporary, format=name, bbox_inches="tight", metadata=dates)
    return missing


def _fill(figure: Figure, panels: Panels, families: list[str]) -> None:
    """Lay out the panels; cells are squares as high as the words next to them."""
    height, width = len(panels.rows), len(panels.columns)
    cell = min(_CELL, _WIDEST / max(height, width))
    across, down = cell * width, cell * height
    in_a_row = min(len(panels.weights), max(1, int(_WIDEST // (across + _GAP))))
    in_a_row = math.ceil(len(panels.weights) / math.ceil(len(panels.weights) / in_a_row))
    lines = math.ceil(len(panels.weights) / in_a_row)
    size = (in_a_row * (across + _GAP), lines * (down + _GAP))
    figure.set_size_inches(*size)
    most = max(float(each.max()) for each in panels.weights.values())
    words = {
        "fontsize": max(_SMALLEST_FONT, min(9.0, 0.6 * cell * _POINTS)),
        "fontfamily": families,
        "parse_math": False,  # a dollar is a dollar
    }
    for number, (caption, weights) in enumerate(panels.weights.items()):
        line, place = divmod(number, in_a_row)
        left, bottom = place * (across + _GAP), (lines - 1 - line) * (down + _GAP) + _GAP
        axes = figure.add_axes((left / size[0], bottom / size[1], across / size[0], down / size[1]))
        image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        axes.set_xlabel(caption, fontsize=10)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        step = max(1, math.ceil(_SMALLEST_FONT / (cell * _POINTS)))
        _label(axes.xaxis, panels.columns if line == 0 else [], step, words, rotation=90)
        _label(axes.yaxis, panels.rows if place == 0 else [], step, words)
    scale = figure.add_axes(
        (1.0 - (_GAP - 0.15) / size[0], bottom / size[1], 0.1 / size[0], down / size[1])
    )
    bar = figure.colorbar(image, cax=scale)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_linewidth(0.5)


def _label(axis: Any, names: list[str], step: int, words: dict[str, Any], **more: Any) -> None:
    """Write every ``step``-th word next to its cells."""
    axis.set_ticks(range(0, len(names), step), names[::step], **words, **more)


def _find_fonts(text: str) -> tuple[list[str], list[str]]:
    """Return fonts that have the text's characters, the usual one first, and scripts without.

    A script's name is the first word of its letters' names in Unicode.
    """
    families = ["DejaVu Sans"]
    # Only characters that are drawn: no spaces, and none that only control others.
    missing = {letter for letter in text if unicodedata.category(letter)[0] in "LMNPS"}
    missing -= _characters(fontManager.findfont(FontProperties(family=families)))
    names = " ".join(unicodedata.name(letter, "") for letter in missing)
    # Fonts for Chinese, Japanese or Korean have all three, but draw Han characters in one way.
    region = "KR" if "HANGUL" in names else "JP" if "GANA" in names or "KANA" in names else "SC"

    def key(font: FontEntry) -> tuple[bool, bool, str]:
        return "Sans" not in font.name, not font.name.endswith(f"CJK {region}"), font.name

    known = sorted(fontManager.ttflist, key=key)
    for font in chain(known, _iter_new_fonts({font.fname for font in known})):
        if not missing:
            break
        # Last Resort has a box for every character.
        if font.style == "normal" and not font.name.startswith("Last Resort"):
            with suppress(OSError, RuntimeError):  # it has been removed since it was listed
                found = missing & _characters(font.fname)
                families += [font.name] if found else []
                missing -= found
    scripts = {unicodedata.name(each).split()[0] for each in missing if each.isalnum()}
    return families, sorted(scripts)


def _iter_new_fonts(known: set[str]) -> Iterator[FontEntry]:
    """Add and yield the fonts that were installed after matplotlib made its list."""
    for path in sorted(set(findSystemFonts()) - known):
        before = len(fontManager.ttflist)
        with suppress(OSError, RuntimeError):  # a font that FreeType cannot read
            fontManager.addfont(path)
        yield from fontManager.ttflist[before:]


def _characters(path: str) -> set[str]:
    return set(map(chr, get_font(path).get_charmap()))

"""Pictures of attention: what is chosen, and words of any script and number."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from transformer_cli.inference.attention_maps import AttentionMaps
from transformer_cli.inference.attention_picture import Panels, draw, select_panels

MAPS = AttentionMaps(
    ["▁Ein", "▁Hu", "nd", "<EOS>"],
    ["▁A", "▁dog", "<EOS>"],
    torch.rand(2, 3, 4, 4),
    torch.rand(2, 3, 3, 3),
    torch.rand(2, 3, 3, 4),
)


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
    draw(Panels(words, words, {"layer 1": np.eye(8)}), tmp_path / "x.png")
    assert not list(recwarn)
    assert not caplog.records


def test_long_sentences_make_no_giant_picture(tmp_path: Path) -> None:
    from matplotlib.image import imread

    words = [f"word{number}" for number in range(400)]
    draw(Panels(words, words, {"layer 1": np.eye(400)}), tmp_path / "x.png")
    height, width, _ = imread(tmp_path / "x.png").shape
    assert 1500 < height < 3500
    assert 1500 < width < 3500


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(select_panels(MAPS, "cross", None, None), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()

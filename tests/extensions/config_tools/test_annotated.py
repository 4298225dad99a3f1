"""Settings as ``config show`` prints them, each with its origin."""

import re
from pathlib import Path

import pytest

from transformer_cli.config.yaml import load_config, load_settings
from transformer_cli.extensions.config_tools.origins import annotate, find_origins


def test_each_line_says_where_it_is_from(top: Path, tmp_path: Path) -> None:
    config, root = load_settings(top, ["training.epochs=5", "model.dropout=0.3"])
    text = annotate(config, find_origins(config, root))
    lines = text.splitlines()
    for line in (
        "seed: 3                       # top.yaml:2",
        "init: null                    # default",
        "data:",
        "  kind: toy                   # root.yaml:1",
        "  dropout: 0.3                # --set",
        "  epochs: 5                   # --set, instead of 30 in top.yaml:4",
        "    kind: linear              # top.yaml:5, instead of noam in root.yaml:6",
        "    warmup: 100               # top.yaml:5",
    ):
        assert line in lines
    shown = tmp_path / "shown.yaml"
    shown.write_text(text)
    assert load_config(shown) == config


@pytest.mark.posix
def test_names_of_files_do_no_harm_in_comments(tmp_path: Path) -> None:
    base, over = tmp_path / "a\nseed: 7\x1b.yaml", tmp_path / "over.yaml"
    base.write_text("data: {kind: toy}\ntokenizer: {kind: words}\n")
    (tmp_path / "link.yaml").symlink_to(base)
    over.write_text("base: link.yaml\nseed: 3\n")
    config, root = load_settings(base, ["seed=3"])
    over.write_text(annotate(config, find_origins(config, root)))
    assert load_config(over) == config
    assert "\x1b" not in over.read_text()


def test_settings_wider_than_most_have_their_comment_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    pair = "{src: a # not a comment\n  , tgt: 'b # nor this'}"
    path.write_text(
        f"data: {{kind: files, src_lang: de, tgt_lang: en, train: {pair}, val: {pair},\n"
        f"  test: {{'a: b': {pair}}}}}\ntokenizer: {{kind: words}}\n"
    )
    config, root = load_settings(path)
    path.write_text(annotate(config, find_origins(config, root)))
    assert load_config(path) == config
    assert len(re.findall(r" nor this' +# ", path.read_text())) == 3

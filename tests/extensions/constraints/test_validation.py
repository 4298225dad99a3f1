"""Settings of what is protected that cannot be, as one line."""

import pickle
from pathlib import Path

import pytest
from validating import refusal as refusal_of

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config, load_config


@pytest.mark.parametrize(
    ("data", "protect"),
    [
        ("{kind: toy}", "[urls]"),
        ("{kind: toy, more: [{src: a.de, tgt: a.en, tag: web}]}", "[]"),
    ],
)
def test_what_stands_once_in_a_line_is_not_concatenated(data: str, protect: str) -> None:
    settings = f"data: {data}\ntokenizer: {{kind: sentencepiece, protect: {protect}}}\n"
    assert "concatenate" in refusal_of(settings + "training: {concatenate: 0.5}\n")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("printff", "protect.0.: expected 'printf', 'braces', 'tags', 'urls' or a mapping"),
        ("printff", "found the text 'printff'; did you mean 'printf'"),
        ("{patern: x}", "protect.0.: expected .* found keys and values"),
        ("{pattern: 'x*'}", "protect.0..pattern: matches empty text"),
        ("{pattern: '['}", "isn't a valid Python regular expression"),
        ("{pattern: '[[:alpha:]]'}", r"Possible nested set at .*; in a set, write '.\[' for '\['"),
        ("{pattern: '(?:a{99}){999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: '(?x)(a{99}) (?#x) {999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: 'a{9999}b{9999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: '" + "(?:||||)" * 11 + "(?=.)'}", "takes more than a second"),
        ("{pattern: " + "a" * 101 + "}", "101 characters; at most 100"),
    ],
)
def test_what_cannot_be_protected_is_refused(item: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"data: {{kind: toy}}\ntokenizer:\n  kind: words\n  protect:\n    - {item}\n")
    with pytest.raises(ConfigError, match=rf"a.yaml:5: tokenizer\..*{said}"):
        load_config(file)


def test_possessive_groups_can_be_protected(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    pattern = r"(?:[0-9a-f]{2}:){5}+[0-9a-f]{2}"
    file.write_text(
        f"data: {{kind: toy}}\ntokenizer: {{kind: words, protect: [{{pattern: '{pattern}'}}]}}\n"
    )
    config = load_config(file)
    assert config.tokenizer.model_dump()["protect"] == [{"pattern": pattern}]
    file.write_text(dump_config(config))
    assert load_config(file) == config


def test_a_section_with_an_added_key_can_be_pickled() -> None:
    data = {"kind": "toy"}
    tokenizer = {"kind": "words", "protect": ["urls"]}
    config = Config.model_validate({"data": data, "tokenizer": tokenizer})
    assert pickle.loads(pickle.dumps(config)) == config

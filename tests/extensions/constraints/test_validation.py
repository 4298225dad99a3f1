"""Settings of what is protected that cannot be, as one line."""

import pickle
from pathlib import Path

import pytest
from validating import refusal as refusal_of

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config


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
        ("printff", "expected 'printf', 'braces', 'tags' or 'urls', found the text 'printff'"),
        ("{pattern: x}", "expected"),
    ],
)
def test_what_cannot_be_protected_is_refused(item: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"data: {{kind: toy}}\ntokenizer:\n  kind: words\n  protect:\n    - {item}\n")
    with pytest.raises(ConfigError, match=rf"a.yaml:5: tokenizer\..*{said}"):
        load_config(file)


def test_a_section_with_an_added_key_can_be_pickled() -> None:
    data = {"kind": "toy"}
    tokenizer = {"kind": "words", "protect": ["urls"]}
    config = Config.model_validate({"data": data, "tokenizer": tokenizer})
    assert pickle.loads(pickle.dumps(config)) == config

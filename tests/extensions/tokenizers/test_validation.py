"""Invalid settings of tokenizers made elsewhere, each reported in one line."""

import pytest
from pydantic import ValidationError
from validating import refusal

from transformer_cli.config.schema import Config


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (
            "{kind: sentencepiece_file, model: m, tgt_model: n}",
            "tokenizer.tgt_model: model is for both sides; give model, or src_model and tgt_model",
        ),
        (
            "{kind: huggingface, src_file: n}",
            "tokenizer.tgt_file: missing, but src_file is set; give both, or file",
        ),
        (
            "{kind: huggingface}",
            "tokenizer.file: missing (path of a tokenizer.json for both sides)",
        ),
        (
            "{kind: huggingface, file: a, vocab_size: 9}",
            "tokenizer.vocab_size: unknown key for kind 'huggingface'; "
            "the keys are kind, file, src_file, tgt_file, lowercase, truecase, protect",
        ),
    ],
)
def test_files_made_elsewhere_are_for_one_side_or_both(tokenizer: str, message: str) -> None:
    assert refusal(f"data: {{kind: toy}}\ntokenizer: {tokenizer}\n") == f"x.yaml:2: {message}"


@pytest.mark.parametrize(
    ("tokenizer", "is_one"),
    [
        ({"kind": "huggingface", "file": "f"}, True),
        ({"kind": "sentencepiece_file", "model": "m"}, True),
        ({"kind": "sentencepiece_file", "src_model": "m", "tgt_model": "m"}, False),
        ({"kind": "huggingface", "src_file": "f", "tgt_file": "f"}, False),
    ],
)
def test_tying_needs_one_vocabulary(tokenizer: dict[str, object], is_one: bool) -> None:
    settings = {"data": {"kind": "toy"}, "tokenizer": tokenizer, "model": {"tying": "all"}}
    if is_one:
        config = Config.model_validate(settings)
        assert Config.model_validate(config.model_dump(mode="json")) == config
    else:
        with pytest.raises(ValidationError, match="one vocabulary"):
            Config.model_validate(settings)

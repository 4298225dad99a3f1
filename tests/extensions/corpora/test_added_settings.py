"""Settings of added text: compared, and their paths."""

from typing import Any

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config


def _config(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


def test_added_pairs_are_one_setting() -> None:
    pair = {"src": "/a", "tgt": "/b"}
    new = _config(data={"kind": "toy", "more": [pair]})
    assert differences(_config(data={"kind": "toy"}), new) == [Difference("data.more", [], [pair])]

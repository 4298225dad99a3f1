"""Configurations as text, and how the program refuses them."""

import pytest

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import parse
from transformer_cli.config.validation import validate_as


def validate(text: str) -> Config:
    return validate_as(Config, parse(text, "x.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        validate(text)
    return str(refused.value)

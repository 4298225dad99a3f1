"""Settings of the search, of which options are made."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from transformer_cli.config.decoding_schema import DecodingConfig


@pytest.mark.parametrize("name", DecodingConfig.options())
def test_an_option_takes_what_its_setting_takes(name: str) -> None:
    for bound, outwards in zip(DecodingConfig.bounds(name), (-1, 1), strict=True):
        assert getattr(read(name, bound), name) == bound
        is_whole = isinstance(bound, int)
        beyond = bound + outwards if is_whole else math.nextafter(bound, outwards * math.inf)
        with pytest.raises(ValidationError):
            read(name, beyond)


def read(name: str, value: Any) -> DecodingConfig:
    return DecodingConfig.model_validate({name: value})

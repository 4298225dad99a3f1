"""The facts of export formats, and how they are used."""

import re
from typing import cast

import pytest
from documents.commands import ROOT

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.extensions.exchange.formats import INTERFACE, check_expressible
from transformer_cli.text.protocol import Tokenizers

PAGE = (ROOT / "docs" / "extensions" / "exchange.md").read_text(encoding="utf-8")


def test_the_page_has_a_row_for_each_format() -> None:
    table = PAGE.partition("| format | model |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)`(?: \(extra `(\w+)`\))? \| (.*)", table, flags=re.M)
    entries = registry.entries(INTERFACE)
    extras = {name: extra for name, extra, _ in rows}
    assert extras == {name: entry.facts.get("extra", "") for name, entry in entries.items()}
    for name, _, text in rows:
        limited = "norm_kind" in entries[name].facts.get("values", "")
        assert ("rmsnorm" in text) == limited, name


def test_a_model_that_a_reader_cannot_compute_is_refused() -> None:
    facts = {"reader": "A reader", "values": "norm: pre, post; activation: relu, gelu"}
    entry = registry.Entry("fake", "fakes", facts, "fakes")
    tokenizers = cast(Tokenizers, None)  # only a format's own check looks at them
    config = Config(data=ToyData(kind="toy"), tokenizer=WordsConfig(kind="words"))
    check_expressible(entry, config, tokenizers)
    swish = config.model_copy(update={"model": ModelConfig(activation="swish")})
    with pytest.raises(UsageError, match="A reader does not support it; train with relu or gelu"):
        check_expressible(entry, swish, tokenizers)

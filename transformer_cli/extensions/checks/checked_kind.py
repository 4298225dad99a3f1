"""The text files that splits of a kind of data are made from, if they aren't the splits' own.

An extension that adds a kind can provide a function of its settings under the kind's name, which
returns those that are trained on, and those that are scored::

    provides = {"checked kind": {"corpus": {"load": "prepared:find_text_files"}}}
"""

from collections.abc import Mapping

from transformer_cli.base import registry
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import PairSource

Sources = Mapping[str, PairSource]


def find_text_files(data: DataSection) -> tuple[Sources, Sources]:
    """Return the text files that splits are made from, by name: to train on, and to score."""
    entry = registry.find("checked kind", data.kind)
    if entry is None:
        return {}, {}
    training, scored = entry.load()(data)
    return training, scored

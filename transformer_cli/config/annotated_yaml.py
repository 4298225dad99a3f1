"""A configuration as YAML, each setting with its origin as a comment."""

from transformer_cli.config.differences import as_yaml
from transformer_cli.config.origins import Origin, Origins
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import (
    Place,
    find_node,
    iter_leaves,
    join_keys,
    shorten,
    values,
)
from transformer_cli.config.yaml import dump_config
from transformer_cli.config.yaml_parser import parse

_WIDEST = 40
"""Columns of a line that the comments beside it make room for; those of wider ones stand out."""


def annotate(config: Config, origins: Origins) -> str:
    """Return the YAML text of a configuration, with each setting's origin as a comment."""
    text = dump_config(config)
    lines = text.splitlines()
    root = parse(text, lambda number: Place("", number))
    comments = {}
    for keys, value in iter_leaves(values(root)):
        node = find_node(root, keys)
        assert node is not None
        comments[node.place.line - 1] = _comment(value, origins.get(join_keys(keys)))
    widths = [len(lines[number]) for number in comments]
    column = max(width for width in widths if width <= _WIDEST)
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{column}}  # {comment}"
    return "".join(f"{line}\n" for line in lines)


def _comment(value: object, origin: Origin | None) -> str:
    if origin is None:
        return "default"
    text = str(origin)
    if origin.replaced and origin.replaced[0].value != value:
        old = origin.replaced[0]
        text += f", instead of {shorten(as_yaml(old.value))} in {old}"
    # A file's name may have anything in it.
    return "".join(each if each.isprintable() else "?" for each in text)

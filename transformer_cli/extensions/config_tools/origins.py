"""Finds where each setting was written (file and line), and which values it replaced."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformer_cli.config import setting_tree as tree
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section, extend_fully
from transformer_cli.config.yaml import SET, dump_settings

_WIDEST = 40
"""Comments are aligned after lines of up to this many characters, but not after longer lines."""


@dataclass(frozen=True)
class Written:
    """A value that a YAML file or --set gives to a setting, and where it is written."""

    value: object
    source: str  # a file's path as given, or "--set"
    line: int  # from 1; 0 with "--set"

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


Origins = dict[str, tuple[Written, ...]]
"""Maps a setting's dotted key to its value and then those it replaced; omits unset settings."""


def find_origins(config: Config, root: tree.Node) -> Origins:
    """Return where settings of ``config`` were written; ``root`` is the YAML tree they are from."""
    leaves = [keys for keys, _ in tree.iter_leaves(config.model_dump(mode="json"))]
    nodes = {tree.join_keys(keys): tree.find_node(root, keys) for keys in leaves}
    return {key: tuple(_history(node)) for key, node in nodes.items() if node}


def _history(latest: tree.Node) -> Iterator[Written]:
    """Yield a setting's current value, then those it replaced, each with where it was written."""
    node: tree.Node | None = latest
    while node is not None:
        # The place of a --set is its whole text, key and value.
        source = node.place.source if node.place.line else SET
        # Earlier values on the command line do not matter any more.
        if node is latest or source != SET:
            yield Written(tree.values(node), source, node.place.line)
        node = node.replaced


def annotate(config: Config, origins: Origins) -> str:
    """Return all settings as YAML text; a comment after each setting says where it was written."""
    text = dump_settings(_dump_fully(config))
    lines = text.splitlines()
    root = tree.parse(text, "")
    comments = {}
    for keys, value in tree.iter_leaves(tree.values(root)):
        node = tree.find_node(root, keys)
        assert node is not None
        comments[node.place.line - 1] = _comment(value, *origins.get(tree.join_keys(keys), ()))
    widths = [len(lines[number]) for number in comments]
    column = max(width for width in widths if width <= _WIDEST)
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{column}}  # {comment}"
    return "".join(f"{line}\n" for line in lines)


def _dump_fully(section: Section) -> dict[str, Any]:
    """Return all settings as plain YAML values, including keys that installed extensions add."""
    given = {key: getattr(section, key) for key in section.model_fields_set}
    whole = extend_fully(type(section)).model_validate(given)
    dumped = whole.model_dump(mode="json")
    below = {key: value for key, value in whole if isinstance(value, Section)}
    return dumped | {key: _dump_fully(part) for key, part in below.items()}


def _comment(value: object, *history: Written) -> str:
    if not history:
        return "default"
    origin, *replaced = history
    text = str(origin)
    if replaced and replaced[0].value != value:
        instead_of = tree.shorten(as_yaml(replaced[0].value))
        text += f", instead of {instead_of} in {replaced[0]}"
    # A filename may contain any character.
    return "".join(character if character.isprintable() else "?" for character in text)

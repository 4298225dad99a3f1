"""Paths in settings: from which directory they start, and what became of it."""

import os.path
from collections.abc import Iterator
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Keys, Node, find_node, setting_error


def check_paths(config: Config, root: Node) -> None:
    """Make sure that no path was meant to start from the directory of the file it is written in.

    ``base`` starts there, and all others where the command is run.

    Args:
        config: the settings.
        root: what they were made of.

    Raises:
        ConfigError: nothing is at a path, and something is if it starts from that directory.
    """
    for keys, path in _paths(config.model_dump()):
        node = find_node(root, keys)
        if node is None or not node.place.line or not isinstance(node.value, str):
            continue
        beside = Path(node.place.source).parent / node.value
        # Not Path.exists, which raises where a name is too long.
        if not os.path.exists(path) and os.path.exists(beside):  # noqa: PTH110
            raise setting_error(
                node.place,
                keys,
                f"there is no {path}, as paths start from the directory that the command is run "
                f"in; did you mean {beside}?",
            )


def _paths(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, Path]]:
    match value:
        case Path():
            yield keys, value
        case dict():
            for key, below in value.items():
                yield from _paths(below, (*keys, key))
        case list():
            for index, below in enumerate(value):
                yield from _paths(below, (*keys, index))

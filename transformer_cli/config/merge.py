"""Merging of one tree of settings over another."""

from transformer_cli.config.setting_tree import Node


def merge(base: Node, over: Node) -> Node:
    """Return the settings of ``base``, overridden by those of ``over``.

    Mappings are merged key by key. Anything else is replaced, and so is a section of another
    ``kind``: what is left of the old kind's keys would mean nothing to the new one.
    """
    if not isinstance(base.value, dict) or not isinstance(over.value, dict) or _differ(base, over):
        return replace_node(base, over)
    entries = dict(base.value)
    for key, node in over.value.items():
        entries[key] = merge(entries[key], node) if key in entries else node
    return Node(entries, over.place)


def replace_node(old: Node, new: Node) -> Node:
    """Return ``new``, whose settings remember those of ``old`` that they replace."""
    if not isinstance(old.value, dict) or not isinstance(new.value, dict):
        return Node(new.value, new.place, replaced=old)
    entries = dict(new.value)
    # A warm-up of another kind of schedule is another setting.
    comparable = ["kind"] if _differ(old, new) else list(entries)
    for key in comparable:
        if key in entries and key in old.value:
            entries[key] = replace_node(old.value[key], entries[key])
    return Node(entries, new.place)


def _differ(old: Node, new: Node) -> bool:
    """Return whether two sections have different kinds."""
    kinds = [_kind(node) for node in (old, new)]
    return None not in kinds and kinds[0] != kinds[1]


def _kind(section: Node) -> str | None:
    kind = section.value.get("kind") if isinstance(section.value, dict) else None
    return kind.value if kind and isinstance(kind.value, str) else None

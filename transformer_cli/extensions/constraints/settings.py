"""The setting for placeholders."""

from typing import Any

from transformer_cli.config.sections import Section, setting
from transformer_cli.config.tokenizer_schema import TokenizerSection
from transformer_cli.extensions.verbatim.verbatim_parts import Group


class ProtectSettings(Section):
    """The setting ``tokenizer.protect``: which placeholders to copy unchanged."""

    protect: list[Group] = setting(
        [],
        "parts of a line to copy unchanged, one token each: printf ('%s'), braces ('{name}'), "
        "tags ('<b>') and urls",
    )

    def check_with(self, config: Any) -> None:
        """Raise ValueError if lines are joined, as placeholders are numbered within a line."""
        super().check_with(config)
        if getattr(config.training, "concatenate", 0.0):
            raise ValueError(
                "training.concatenate: tags (tag) and placeholders (protect) belong to one line, "
                "so lines cannot be joined; set it to 0, or remove tags and placeholders"
            )


def find_protect(tokenizer: TokenizerSection) -> list[Group]:
    """Return the groups of placeholders that a tokenizer protects."""
    return list(tokenizer.protect) if isinstance(tokenizer, ProtectSettings) else []

"""The settings for placeholders and for terms."""

from typing import Annotated, Any

from pydantic import Field

from transformer_cli.config.data_schema import DataSection
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


class TermsSettings(Section):
    """The setting ``data.terms``: in what fraction of training lines to replace words."""

    terms: Annotated[float, Field(ge=0.0, le=1.0)] = setting(
        0.0,
        "share of training lines in which some words are replaced with their translations, so that "
        "the model follows translate --terms (Dinu et al. 2019); try 0.3",
    )

    def check_with(self, config: Any) -> None:
        """Raise ValueError if the source vocabulary does not contain target words."""
        super().check_with(config)
        if not config.tokenizer.one_vocabulary:
            raise ValueError(
                "data.terms: sources with target words need one vocabulary for both sides "
                "(subwords with joint: true, or one file for both); set it to 0"
            )


def find_protect(tokenizer: TokenizerSection) -> list[Group]:
    """Return the groups of placeholders that a tokenizer protects."""
    return list(tokenizer.protect) if isinstance(tokenizer, ProtectSettings) else []


def find_terms(data: DataSection) -> float:
    """Return ``data.terms``, the fraction of training lines that get terms."""
    return data.terms if isinstance(data, TermsSettings) else 0.0

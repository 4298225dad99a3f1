"""The option of ``init`` for models that translate documents."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer_cli.cli.declaring import option
from transformer_cli.extensions.corpora.init import TokenizerOptions

_PROTECT = """\
  # Placeholders become one token each, so that translations keep them. Models with protect cannot
  # be exported with --format transformers; other exports need transformer-cli to encode text.
  protect: [printf, braces, tags, urls]
"""


@dataclass(frozen=True)
class PurposeOptions(TokenizerOptions):
    """The option of ``init`` that says what a model is for."""

    heading = "Your text"
    for_: Annotated[
        Literal["documents"] | None,
        option(
            "documents",
            "With --from own or opus: protect the placeholders and tags of documents.",
            "--for",
        ),
    ] = None

    @property
    def tokenizer_yaml(self) -> str:
        return _PROTECT if self.for_ else ""

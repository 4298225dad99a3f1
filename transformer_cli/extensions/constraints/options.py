"""Options of ``translate`` and ``evaluate``: a tag before each line, and terms to use."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option
from transformer_cli.cli.options import prefix_errors


@dataclass(frozen=True)
class ConstraintOptions(ExtraOptions):
    """The options that set the tag of source lines and the terms to use."""

    heading = "Terms and memory"
    tag: Annotated[
        str | None,
        option("NAME", "Put this tag before each line; it must be a tag of the training data."),
    ] = None
    terms: Annotated[
        Path | None, option("FILE", "TSV file of terms and their translations.", marks=("reads",))
    ] = None

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator whose tokenizers add the tag and apply the terms."""
        if self.tag is None and self.terms is None:
            return translator
        from transformer_cli.extensions.constraints import reserved, terms_file

        tokenizers = translator.tokenizers
        if self.tag is not None:
            with prefix_errors("--tag: "):
                tokenizers = tokenizers.tagged(self.tag)
        if self.terms is not None:
            data = translator.config.data
            listed = terms_file.read_terms(self.terms, data.src_lang, data.tgt_lang)
            with prefix_errors("--terms: "):
                tokenizers = reserved.with_terms(tokenizers, listed)
        return replace(translator, tokenizers=tokenizers)


@dataclass(frozen=True)
class EvaluateConstraintOptions(ConstraintOptions):
    """``ConstraintOptions`` for ``evaluate``, where a split's lines have tags of their own."""

    def check(self, given: Any) -> None:
        if self.tag is not None and given.src is None:
            raise UsageError(
                "evaluate: --tag is for --src and --ref; the lines of a split have their own tags"
            )

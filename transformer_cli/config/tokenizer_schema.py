"""The settings in the section ``tokenizer``, with one class for each ``tokenizer.kind``."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from transformer_cli.config.sections import Count, Kinds, Language, Section, setting


class TokenizerSection(Section):
    """The section ``tokenizer``; each subclass has the settings for one ``tokenizer.kind``."""

    place = "tokenizer"

    kind: str
    if TYPE_CHECKING:  # each kind has it, as a field or a property

        @property
        def lowercase(self) -> bool:
            """Return whether source and target text is lowercased, translations included."""

    @property
    def one_vocabulary(self) -> bool:
        """Return whether source and target share one vocabulary."""
        return bool(getattr(self, "joint", False))


class WordsConfig(TokenizerSection):
    """Words split by spaCy's rules, one vocabulary per side; sacremoses detokenizes the output."""

    kind: Literal["words"]
    lowercase: bool = setting(False, "lowercase both sides, including translations")
    min_freq: Count = setting(
        2, "minimum count of a word in the training text; rarer words are unknown"
    )
    max_size: Annotated[int, Field(ge=5, lt=2**31)] | None = setting(
        None, "maximum vocabulary size, including the four special tokens"
    )
    order: Literal["frequency", "appearance"] = setting(
        "frequency", "order of ids: by decreasing frequency, or by first appearance"
    )
    src_rules: Language | None = setting(
        None, "language whose spaCy rules tokenize the source; null: src_lang"
    )
    tgt_rules: Language | None = setting(
        None, "language whose spaCy rules tokenize the target; null: tgt_lang"
    )


class SentencePieceConfig(TokenizerSection):
    """SentencePiece subwords, learned from the training text."""

    kind: Literal["sentencepiece"]
    model_type: Literal["bpe", "unigram"] = setting("bpe", "subword algorithm")
    vocab_size: Annotated[int, Field(ge=8, lt=2**31)] = setting(
        8000, "vocabulary size, including the four special tokens"
    )
    joint: bool = setting(True, "one vocabulary for both sides")
    lowercase: bool = setting(False, "lowercase both sides, including translations")
    normalization: Literal["nfc", "nmt_nfkc", "nfkc", "identity"] = setting(
        "nfc",
        "Unicode normalization; nfc: only unify encodings of the same character; nmt_nfkc, "
        "nfkc: SentencePiece's rules, which also turn ⁶ into 6; identity: none",
    )
    byte_fallback: bool = setting(True, "encode unseen characters as bytes")
    character_coverage: Annotated[float, Field(gt=0.9, le=1.0)] = setting(
        1.0, "share of the training text's characters that the vocabulary covers"
    )


TokenizerConfig = Annotated[TokenizerSection, Kinds("tokenizer", WordsConfig, SentencePieceConfig)]

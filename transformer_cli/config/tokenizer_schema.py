"""The settings of the tokenizers, one class for each kind."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from transformer_cli.config.sections import Count, FilePath, Kinds, Language, Section, setting


class TokenizerSection(Section):
    """The settings of a tokenizer kind, whose class is found by ``text.tokenizer.find_kind``."""

    place = "tokenizer"
    file_key: ClassVar[str | None] = None
    """The key of existing files, which ``src_`` and ``tgt_`` before it are for one side of."""

    kind: str
    if TYPE_CHECKING:  # a field of each kind, or a property

        @property
        def lowercase(self) -> bool:
            """Return whether both sides are lowercased, output included."""

    @property
    def files(self) -> dict[Literal["src", "tgt", "joint"], Path]:
        """Existing files by side; empty: tokenizers are learned."""
        key = self.file_key
        if key is None:
            return {}
        sides: tuple[Literal["src", "tgt"], ...] = ("src", "tgt")
        paths = {side: getattr(self, f"{side}_{key}") for side in sides}
        given = [side for side in sides if paths[side] is not None]
        joint: Path | None = getattr(self, key)
        if joint is not None and given:
            raise ValueError(
                f"{given[0]}_{key}: {key} is for both sides; give that, or src_{key} and tgt_{key}"
            )
        if len(given) == 1:
            (missing,) = set(sides) - set(given)
            one_side = f"as {given[0]}_{key} is for one side"
            raise ValueError(f"{missing}_{key}: missing, {one_side}; give both, or {key}")
        if joint is not None:
            return {"joint": joint}
        return {side: paths[side] for side in given}

    @property
    def one_vocabulary(self) -> bool:
        """Return whether both sides share one vocabulary."""
        return "joint" in self.files if self.files else bool(getattr(self, "joint", False))

    @property
    def may_sample(self) -> bool:
        """Return whether subwords can be sampled; a model made elsewhere tells when opened."""
        return False


class WordsConfig(TokenizerSection):
    """Words by spaCy's rules, with one vocabulary a side; output is put together by sacremoses."""

    kind: Literal["words"]
    lowercase: bool = setting(False, "lowercase both sides, output included")
    min_freq: Count = setting(2, "words that are rarer than this in the training text are unknown")
    max_size: Annotated[int, Field(ge=5, lt=2**31)] | None = setting(
        None, "maximum vocabulary size, the four special tokens included"
    )
    order: Literal["frequency", "appearance"] = setting(
        "frequency", "order of ids: by falling frequency, or by first appearance"
    )
    src_rules: Language | None = setting(
        None, "language whose spaCy rules tokenize the source; null: src_lang"
    )
    tgt_rules: Language | None = setting(
        None, "language whose spaCy rules tokenize the target; null: tgt_lang"
    )


class SentencePieceConfig(TokenizerSection):
    """Subwords by SentencePiece, learned from the training text or taken from files."""

    file_key = "model"

    kind: Literal["sentencepiece"]
    model_type: Literal["bpe", "unigram"] = setting("bpe", "subword algorithm")
    vocab_size: Annotated[int, Field(ge=8, lt=2**31)] = setting(
        8000, "vocabulary size, the four special tokens included"
    )
    joint: bool = setting(True, "one vocabulary for both sides")
    lowercase: bool = setting(False, "lowercase both sides, output included")
    normalization: Literal["nfc", "nmt_nfkc", "nfkc", "identity"] = setting(
        "nfc",
        "how characters are unified; nfc: equal spellings and white space; nmt_nfkc, nfkc: "
        "SentencePiece's, which also turn ⁶ into 6 and ½ into 1⁄2, and nmt_nfkc zero-width "
        "non-joiners into spaces; identity: not at all",
    )
    byte_fallback: bool = setting(True, "encode unseen characters as bytes")
    character_coverage: Annotated[float, Field(gt=0.9, le=1.0)] = setting(
        1.0, "share of the training text's characters that the vocabulary covers"
    )
    model: FilePath | None = setting(
        None,
        "an existing SentencePiece model for both sides; null: one is trained, as the "
        "other keys say",
    )
    src_model: FilePath | None = setting(None, "the same for the source side only")
    tgt_model: FilePath | None = setting(None, "the same for the target side only")

    @model_validator(mode="after")
    def _learned_or_from_files(self) -> Self:
        given = [key for key in LEARNING if key in self.model_fields_set]
        if self.files and given:
            raise ValueError(
                f"{given[0]}: is for learning, and a model made elsewhere is settled; leave it out"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is settled by files has no setting.
        settings: dict[str, Any] = dump(self)
        unused = LEARNING if self.files else ()
        return {key: value for key, value in settings.items() if key not in unused}

    @property
    def may_sample(self) -> bool:
        """Return whether there are, or may be, merges to leave out."""
        return bool(self.files) or self.model_type == "bpe"


LEARNING = (
    *("model_type", "vocab_size", "joint"),
    *("normalization", "byte_fallback", "character_coverage"),
)
MODEL_KEYS = {"model", "src_model", "tgt_model"}
"""Of ``SentencePieceConfig``: what settles what those say."""


TokenizerConfig = Annotated[TokenizerSection, Kinds("tokenizer", WordsConfig, SentencePieceConfig)]

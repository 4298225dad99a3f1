"""The settings of the tokenizers, one class for each kind."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from transformer_cli.config.sections import Count, FilePath, Language, Section

Protected = Literal["printf", "braces", "tags", "urls"]


class TokenizerSection(Section):
    """The settings of a tokenizer kind, whose module is ``text/kinds/<kind>.py``."""

    kind: str
    protect: list[Protected] = Field(
        [],
        description="parts of a line that are translated as they are, a token each: printf ('%s'), "
        "braces ('{name}'), tags ('<b>') and urls",
    )

    @property
    def files(self) -> dict[Literal["src", "tgt", "joint"], Path]:
        """Existing files by side; empty: tokenizers are learned."""
        return {}

    @property
    def one_vocabulary(self) -> bool:
        """Return whether both sides share one vocabulary."""
        return "joint" in self.files

    @property
    def may_sample(self) -> bool:
        """Return whether subwords can be sampled, as far as the settings tell."""
        return False

    @property
    def size_note(self) -> str:
        """Note to print beside a vocabulary's size."""
        return "made elsewhere" if self.files else self.kind


class WordsConfig(TokenizerSection):
    """Words by spaCy's rules, with one vocabulary a side; output is put together by sacremoses."""

    kind: Literal["words"]
    lowercase: bool = Field(False, description="lowercase both sides, output included")
    min_freq: Count = Field(
        2, description="words that are rarer than this in the training text are unknown"
    )
    max_size: Annotated[int, Field(ge=5, lt=2**31)] | None = Field(
        None, description="maximum vocabulary size, the four special tokens included"
    )
    order: Literal["frequency", "appearance"] = Field(
        "frequency", description="order of ids: by falling frequency, or by first appearance"
    )
    src_rules: Language | None = Field(
        None, description="language whose spaCy rules tokenize the source; null: src_lang"
    )
    tgt_rules: Language | None = Field(
        None, description="language whose spaCy rules tokenize the target; null: tgt_lang"
    )

    @property
    def size_note(self) -> str:
        """Lowest frequency of a word in the vocabulary."""
        return f"min_freq {self.min_freq}"


class SentencePieceConfig(TokenizerSection):
    """Subwords by SentencePiece, learned from the training text or taken from files."""

    kind: Literal["sentencepiece"]
    model_type: Literal["bpe", "unigram"] = Field("bpe", description="subword algorithm")
    vocab_size: Annotated[int, Field(ge=8, lt=2**31)] = Field(
        8000, description="vocabulary size, the four special tokens included"
    )
    joint: bool = Field(True, description="one vocabulary for both sides")
    lowercase: bool = Field(False, description="lowercase both sides, output included")
    byte_fallback: bool = Field(True, description="encode unseen characters as bytes")
    character_coverage: Annotated[float, Field(gt=0.9, le=1.0)] = Field(
        1.0, description="share of the training text's characters that the vocabulary covers"
    )
    model: FilePath | None = Field(
        None,
        description="an existing SentencePiece model for both sides; null: one is trained, as the "
        "other keys say",
    )
    src_model: FilePath | None = Field(None, description="the same for the source side only")
    tgt_model: FilePath | None = Field(None, description="the same for the target side only")

    @model_validator(mode="after")
    def _learned_or_from_files(self) -> Self:
        files = _files(self, "model")
        given = [key for key in _LEARNING if key in self.model_fields_set]
        if files and given:
            raise ValueError(
                f"{given[0]}: is for learning, and a model made elsewhere is settled; leave it out"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is settled by files has no setting.
        settings: dict[str, Any] = dump(self)
        unused = _LEARNING if self.files else ()
        return {key: value for key, value in settings.items() if key not in unused}

    @property
    def files(self) -> dict[Literal["src", "tgt", "joint"], Path]:
        """Existing models by side; empty: they are learned."""
        return _files(self, "model")

    @property
    def one_vocabulary(self) -> bool:
        """Return whether both sides share one vocabulary."""
        return "joint" in self.files if self.files else self.joint

    @property
    def may_sample(self) -> bool:
        """Return whether subwords can be sampled: a model made elsewhere tells when opened."""
        return bool(self.files) or self.model_type == "bpe"

    @property
    def size_note(self) -> str:
        """Type of a model learned here."""
        return super().size_note if self.files else self.model_type


_LEARNING = ("model_type", "vocab_size", "joint", "byte_fallback", "character_coverage")


class WordPieceConfig(TokenizerSection):
    """WordPiece, BERT's kind of subwords, learned from the training text; keeps spaces."""

    kind: Literal["wordpiece"]
    vocab_size: Annotated[int, Field(ge=8, lt=2**31)] = Field(
        8000, description="maximum vocabulary size, the four special tokens included"
    )
    joint: bool = Field(True, description="one vocabulary for both sides")
    min_frequency: Count = Field(2, description="minimum frequency of characters and merges")
    lowercase: bool = Field(False, description="lowercase both sides, output included")
    strip_accents: bool = Field(False, description="strip accents on both sides, output included")

    @property
    def one_vocabulary(self) -> bool:
        """Return whether both sides share one vocabulary."""
        return self.joint


class HuggingFaceConfig(TokenizerSection):
    """A Hugging Face tokenizer.json made elsewhere: WordPiece, BPE or unigrams, say."""

    kind: Literal["huggingface"]
    file: FilePath | None = Field(None, description="path of a tokenizer.json for both sides")
    src_file: FilePath | None = Field(None, description="the same for the source side only")
    tgt_file: FilePath | None = Field(None, description="the same for the target side only")
    lowercase: bool = Field(
        False,
        description="lowercase text before the file's own rules; validation uses lowercased BLEU",
    )

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if not _files(self, "file"):
            raise ValueError("file: missing (path of a tokenizer.json for both sides)")
        return self

    @property
    def files(self) -> dict[Literal["src", "tgt", "joint"], Path]:
        """Files by side."""
        return _files(self, "file")


class MarianConfig(TokenizerSection):
    """A Marian model's tokenizers, as ``import`` found them: SentencePiece over tables of ids."""

    kind: Literal["marian"]
    joint: bool = Field(True, description="one table of ids for both sides")

    @property
    def one_vocabulary(self) -> bool:
        """Return whether both sides share one vocabulary."""
        return self.joint

    @property
    def lowercase(self) -> bool:
        """Return False: it is the models themselves that may lowercase."""
        return False

    @property
    def may_sample(self) -> bool:
        """Return True: a model tells when it is opened."""
        return True


def _files(section: Section, key: str) -> dict[Literal["src", "tgt", "joint"], Path]:
    """Return the paths in ``key``, ``src_key`` and ``tgt_key``; empty if there are none."""
    joint, src, tgt = (getattr(section, name) for name in (key, f"src_{key}", f"tgt_{key}"))
    if joint is not None:
        for side, path in (("src", src), ("tgt", tgt)):
            if path is not None:
                raise ValueError(
                    f"{side}_{key}: {key} is for both sides; give that, or src_{key} and tgt_{key}"
                )
        return {"joint": joint}
    if src is None and tgt is None:
        return {}
    if src is None or tgt is None:
        missing, given = ("src", "tgt") if src is None else ("tgt", "src")
        raise ValueError(
            f"{missing}_{key}: missing, as {given}_{key} is for one side; give both, or {key}"
        )
    return {"src": src, "tgt": tgt}


TokenizerConfig = Annotated[
    WordsConfig | SentencePieceConfig | WordPieceConfig | HuggingFaceConfig | MarianConfig,
    Field(discriminator="kind"),
]

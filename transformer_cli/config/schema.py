"""The settings of an experiment: every key that a YAML file may have, with its unit and default.

Where a default is a number from the literature, its source is "Attention Is All You Need"
(Vaswani et al. 2017) unless the field says otherwise.
"""

import os.path
import re
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from transformer_cli.files import find_unusable_on_windows

# Bounds far beyond what can be computed with, below those of the numbers that libraries take.
Count = Annotated[int, Field(gt=0, lt=2**31)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**31)]
Width = Annotated[int, Field(gt=0, le=2**20)]
Layers = Annotated[int, Field(gt=0, le=1000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
DropoutRate = Annotated[float, Field(ge=0.0, le=0.9)]
LANGUAGE_PATTERN = r"^[a-z]{2,3}(-[A-Za-z]+)?$"
Language = Annotated[str, Field(min_length=2, max_length=8, pattern=LANGUAGE_PATTERN)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change once read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False
    )


# --- data -----------------------------------------------------------------------------------------


# A run remembers where its files lie, whatever directory it is used from.
FilePath = Annotated[
    Path,
    Field(strict=False),
    # Not Path.expanduser, which raises where there is no such user.
    AfterValidator(lambda path: Path(os.path.expanduser(path)).absolute()),  # noqa: PTH111
    # A run's records are the same on Windows.
    PlainSerializer(lambda path: path.as_posix(), return_type=str, when_used="json"),
]


SourceFormat = Literal["tmx", "tsv", "jsonl", "parquet", "po", "text"]
SOURCE_FORMATS: tuple[SourceFormat, ...] = ("tmx", "tsv", "jsonl", "parquet", "po")
PATH_KEYS = ("src", "tgt", *SOURCE_FORMATS)
"""Keys of a source that are paths."""
FilterName = Literal[
    "blank",
    "encoding",
    "identical",
    "script",
    "markup",
    "numbers",
    "language",
    "language_short",
    "length",
    "length_ratio",
    "duplicates",
    "duplicates_folded",
]
"""In the order in which they are applied."""
Column = Annotated[int | str, WithJsonSchema({"type": ["integer", "string"]})]
SPLIT_NAME = r"[A-Za-z0-9_-]{1,64}"
TAG_PATTERN = r"^[A-Za-z0-9_-]{1,32}$"
TagName = Annotated[str, Field(pattern=TAG_PATTERN)]


class FilePair(Section):
    """Two aligned text files: line n of one translates line n of the other; .gz, .xz, .zst too.

    Relative paths start from the directory that the command is run in.
    """

    src: FilePath = Field(description="path of the source side")
    tgt: FilePath = Field(description="path of the target side")


class SourceConfig(Section):
    """Parallel text in one format, compressed (.gz, .xz, .zst) or not.

    Exactly one of tmx, tsv, jsonl, parquet and po, or src and tgt. Paths may have the wildcards *
    and ?, and start from the directory that the command is run in.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "dependencies": {
                "src": ["tgt"],
                "tgt": ["src"],
                "tsv": ["src_column", "tgt_column"],
                "jsonl": ["src_field", "tgt_field"],
                "parquet": ["src_field", "tgt_field"],
            },
        }
    )

    src: FilePath | None = Field(None, description="path of the source side of aligned text files")
    tgt: FilePath | None = Field(None, description="path of the target side")
    tmx: FilePath | None = Field(None, description="path of a translation memory, TMX")
    tsv: FilePath | None = Field(None, description="path of tab-separated values")
    jsonl: FilePath | None = Field(None, description="path of JSON objects, one a line")
    parquet: FilePath | None = Field(None, description="path of a Parquet file")
    po: FilePath | None = Field(None, description="path of a gettext PO or MO file")
    src_column: Column | None = Field(
        None, description="tsv: number of the source column, from 1, or its name in the header"
    )
    tgt_column: Column | None = Field(None, description="tsv: the same for the target")
    src_field: str | None = Field(
        None, description="jsonl, parquet: field of the source, as in 'translation.de'"
    )
    tgt_field: str | None = Field(None, description="jsonl, parquet: the same for the target")
    weight: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        1.0, description="how often each pair is trained on in an epoch: 0.5 is half of them"
    )
    tag: TagName | None = Field(
        None, description="token put before each source, for translate --tag; null: none"
    )
    filters: list[FilterName] | None = Field(
        None, description="filters for this source; null: those of data.filters"
    )
    split: bool = Field(True, description="whether val and test may be drawn from this source")

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        given: list[str] = [key for key in SOURCE_FORMATS if getattr(self, key) is not None]
        if self.src is not None or self.tgt is not None:
            given.append("src")
            for key in ("src", "tgt"):
                if getattr(self, key) is None and len(given) == 1:
                    raise ValueError(f"{key}: missing ({_description(type(self), key)})")
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "none is given"
            raise ValueError(
                f"{given[-1] if given else 'src'}: a source is one of "
                f"{', '.join(SOURCE_FORMATS)}, or src and tgt; {what}"
            )
        self._check_keys(given[0])
        return self

    def _check_keys(self, form: str) -> None:
        """Check that there are the keys that a format needs, and none of another's."""
        for keys, forms in (
            (("src_column", "tgt_column"), ("tsv",)),
            (("src_field", "tgt_field"), ("jsonl", "parquet")),
        ):
            for key in keys:
                is_given = getattr(self, key) is not None
                if is_given and form not in forms:
                    raise ValueError(f"{key}: is for {' and '.join(forms)}; leave it out")
                if not is_given and form in forms:
                    raise ValueError(f"{key}: missing ({_description(type(self), key)})")

    @model_serializer(mode="wrap")
    def _as_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A pair of files is two paths, as it was before there were other formats.
        settings: dict[str, Any] = dump(self)
        fields = type(self).model_fields
        return {key: value for key, value in settings.items() if value != fields[key].default}

    @property
    def format(self) -> SourceFormat:
        """Format of the text; "text" for aligned files."""
        return next((key for key in SOURCE_FORMATS if getattr(self, key) is not None), "text")

    @property
    def path(self) -> Path:
        """Path of the file, perhaps with wildcards; of aligned files, that of the source side."""
        path: Path = getattr(self, "src" if self.format == "text" else self.format)
        return path

    @property
    def description(self) -> str:
        """Names of its files, without their directories."""
        return f"{self.path.name} and {self.tgt.name}" if self.tgt is not None else self.path.name


class Diversified(Section):
    """A corpus that more pairs may be added to."""

    more: list[SourceConfig] = Field(
        [],
        description="further training pairs, such as translations by other models (data "
        "diversification, Nguyen et al. 2020)",
    )

    @model_validator(mode="after")
    def _unfiltered(self) -> Self:
        for number, source in enumerate(self.more):
            for key in ("filters", "split"):
                if key in source.model_fields_set:
                    raise ValueError(
                        f"more[{number}].{key}: is for sources of kind corpus; leave it out"
                    )
        return self


class GermanEnglish(Section):
    """A corpus that has German and English, in either direction."""

    src_lang: Literal["de", "en"] = Field("de", description="source language")
    tgt_lang: Literal["de", "en"] = Field("en", description="target language")

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        if self.src_lang == self.tgt_lang:
            raise ValueError(f"tgt_lang: '{self.tgt_lang}' is src_lang too; they must differ")
        return self


class Multi30kData(GermanEnglish, Diversified):
    """The Multi30k captions (task 1), downloaded and verified if they are not on disk."""

    kind: Literal["multi30k"]


class ToyData(GermanEnglish, Diversified):
    """The toy captions under data/toy: made by a grammar, for experiments of minutes."""

    kind: Literal["toy"]


class CopyData(Section):
    """The copy task: lines of random symbols that are their own translation."""

    kind: Literal["copy"]
    symbols: Annotated[int, Field(ge=2, le=10**6)] = Field(
        10, description="number of different symbols"
    )
    length: Annotated[int, Field(gt=0, le=10**4)] = Field(10, description="symbols in a line")
    train_lines: Count = Field(4000, description="lines in the training split")
    test_lines: Count = Field(200, description="lines in val and in test")
    src_lang: Literal["xx"] = Field("xx", description="no language")
    tgt_lang: Literal["xx"] = Field("xx", description="no language")


class FilesData(Diversified):
    """Any parallel text, as pairs of files."""

    kind: Literal["files"]
    src_lang: Language = Field(description="source language, as in 'de'")
    tgt_lang: Language = Field(description="target language, as in 'en'")
    train: FilePair = Field(description="training pairs")
    val: FilePair = Field(description="validation pairs")
    test: dict[str, FilePair] = Field({}, description="test splits, by name")

    @model_validator(mode="after")
    def _split_names_are_free(self) -> Self:
        for name in ("train", "val"):
            if name in self.test:
                raise ValueError(f"test.{name}: the name '{name}' is taken; call it something else")
        return self


class SplitConfig(Section):
    """Splits drawn from the sources, by pair."""

    val: Count = Field(description="pairs to validate on")
    test: CountOrZero = Field(0, description="pairs of the split test; 0: no such split")
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        1, description="decides which; not the experiment's, so that runs of other seeds compare"
    )


class CorpusData(Section):
    """Parallel text from sources of several formats, filtered and split; docs/corpora.md."""

    kind: Literal["corpus"]
    src_lang: Language = Field(description="source language, as in 'de'")
    tgt_lang: Language = Field(description="target language, as in 'en'")
    sources: Annotated[list[SourceConfig], Field(min_length=1)] = Field(
        description="where the pairs come from"
    )
    split: SplitConfig | None = Field(
        None, description="draws val and test from the sources; null: val is given"
    )
    val: SourceConfig | None = Field(None, description="validation pairs, if they are not drawn")
    test: dict[str, SourceConfig] = Field({}, description="further test splits, by name")
    filters: list[FilterName] = Field(
        ["blank", "duplicates"], description="which pairs of the sources are left out"
    )
    max_bad_units: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.01, description="share of a source's units that may be damaged; more of them are an error"
    )

    @model_validator(mode="after")
    def _has_splits(self) -> Self:
        if (self.split is None) == (self.val is None):
            found = "neither is given" if self.val is None else "both are given"
            raise ValueError(f"split: split draws the validation pairs, or val names them; {found}")
        if self.split is not None and self.split.test and "test" in self.test:
            raise ValueError("test.test: the name 'test' is that of split.test; call it another")
        self._check_names()
        return self

    def _check_names(self) -> None:
        """Check that each test split can have files of its name, on Windows and macOS too."""
        is_drawn = self.split is not None and self.split.test
        taken = {name: name for name in ("train", "val", *(["test"] if is_drawn else []))}
        for name in self.test:
            if not re.fullmatch(SPLIT_NAME, name):
                raise ValueError(
                    f"test.{name}: files are named after it; use letters, digits, - and _ only"
                )
            if find_unusable_on_windows(PurePath(name)):
                raise ValueError(
                    f"test.{name}: files are named after it, and Windows has none of this name; "
                    "call it something else"
                )
            other = taken.setdefault(name.lower(), name)
            if other != name or name in ("train", "val"):
                raise ValueError(
                    f"test.{name}: the name '{other}' is taken; call it something else"
                )


DataConfig = Annotated[
    Multi30kData | ToyData | CopyData | FilesData | CorpusData, Field(discriminator="kind")
]


def tag_names(data: DataConfig) -> list[str]:
    """Return the tags of all sources, sorted."""
    match data:
        case CopyData():
            sources: list[SourceConfig] = []
        case CorpusData():
            given = [*([] if data.val is None else [data.val]), *data.test.values()]
            sources = [*data.sources, *given]
        case _:
            sources = data.more
    return sorted({source.tag for source in sources if source.tag is not None})


# --- tokenizer ------------------------------------------------------------------------------------


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


def _description(section: type[Section], key: str) -> str:
    return section.model_fields[key].description or ""


def _files(section: Section, key: str) -> dict[Literal["src", "tgt", "joint"], Path]:
    """Return the paths in ``key``, ``src_key`` and ``tgt_key``; empty if there are none."""
    joint, src, tgt = (getattr(section, each) for each in (key, f"src_{key}", f"tgt_{key}"))
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
    WordsConfig | SentencePieceConfig | WordPieceConfig | HuggingFaceConfig,
    Field(discriminator="kind"),
]

# --- model ----------------------------------------------------------------------------------------


class ModelConfig(Section):
    """The Transformer's size and form. The defaults are a small model for small data."""

    d_model: Width = Field(256, description="width of every layer's input and output")
    num_heads: Width = Field(4, description="attention heads; must divide d_model")
    d_ff: Width = Field(1024, description="inner width of the feed-forward layers")
    num_encoder_layers: Layers = Field(3, description="encoder layers")
    num_decoder_layers: Layers = Field(3, description="decoder layers")
    dropout: DropoutRate = Field(
        0.1, description="dropout of embeddings and of each sublayer's output"
    )
    attention_dropout: DropoutRate = Field(0.0, description="dropout of attention weights")
    activation_dropout: DropoutRate = Field(
        0.0, description="dropout after the feed-forward activation"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer normalisation before each sublayer, or after it as in the paper"
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="position encoding; learned positions limit the input's length"
    )
    max_positions: Width = Field(
        512, description="maximum input length, in tokens, of learned positions"
    )
    activation: Literal["relu", "gelu", "swiglu"] = Field(
        "relu", description="feed-forward activation; swiglu has a third matrix (Shazeer 2020)"
    )
    tying: Literal["none", "output", "all"] = Field(
        "output",
        description="weight tying: none; target embedding and output layer; source embedding too "
        "(all), which needs a joint vocabulary",
    )

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} heads do not divide d_model {self.d_model}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"d_model: sinusoidal positions need an even d_model, not {self.d_model}"
            )
        return self


# --- training -------------------------------------------------------------------------------------


class NoamSchedule(Section):
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), the paper's schedule."""

    kind: Literal["noam"]
    factor: PositiveFloat = Field(2.0, description="scale of the whole schedule")
    warmup: Count = Field(4000, description="optimizer steps of linear warm-up")


class ConstantSchedule(Section):
    """A linear rise over the warm-up, then constant at ``peak``."""

    kind: Literal["constant"]
    peak: PositiveFloat = Field(description="peak learning rate")
    warmup: CountOrZero = Field(0, description="optimizer steps of linear warm-up")


class InverseSqrtSchedule(Section):
    """A linear rise to ``peak``, then peak * sqrt(warmup / step): Noam by its highest rate."""

    kind: Literal["inverse_sqrt"]
    peak: PositiveFloat = Field(description="peak learning rate")
    warmup: Count = Field(description="optimizer steps of linear warm-up")


class LinearSchedule(Section):
    """A linear rise to ``peak``, then a straight line to zero at the last step."""

    kind: Literal["linear"]
    peak: PositiveFloat = Field(description="peak learning rate")
    warmup: CountOrZero = Field(description="optimizer steps of linear warm-up")


class CosineSchedule(Section):
    """A linear rise to ``peak``, then half a cosine to zero at the last step."""

    kind: Literal["cosine"]
    peak: PositiveFloat = Field(description="peak learning rate")
    warmup: CountOrZero = Field(description="optimizer steps of linear warm-up")


ScheduleConfig = Annotated[
    NoamSchedule | ConstantSchedule | InverseSqrtSchedule | LinearSchedule | CosineSchedule,
    Field(discriminator="kind"),
]


class TrainingConfig(Section):
    """Optimization, validation and checkpoints."""

    epochs: Count = Field(10, description="passes over the training text")
    max_steps: Count | None = Field(
        None, description="maximum optimizer steps, if the epochs do not end first"
    )
    batch_tokens: Count = Field(
        4096, description="maximum tokens per side in a batch, padding included"
    )
    accumulate: Count = Field(
        1, description="batches per optimizer step, on each process (gradient accumulation)"
    )
    max_length: Count = Field(
        256, description="maximum tokens per side; longer training pairs are left out"
    )
    label_smoothing: Probability = Field(
        0.1, description="probability spread over the wrong target tokens"
    )
    consistency: Annotated[float, Field(ge=0.0, le=1e6)] = Field(
        0.0,
        description="weight (alpha) of R-Drop (Liang et al. 2021): two forward passes with "
        "different dropout, whose divergence is added to the loss; 0: one pass, in half the time",
    )
    src_bpe_dropout: Probability = Field(
        0.0,
        description="BPE-dropout (Provilkov et al. 2020): probability of skipping a merge in a "
        "source word in training; batches then hold more tokens",
    )
    tgt_bpe_dropout: Probability = Field(0.0, description="BPE-dropout of the target side")
    average_decay: Annotated[float, Field(gt=0.0, lt=1.0)] | None = Field(
        None,
        description="decay of an exponential moving average of the weights (Polyak and Juditsky "
        "1992), at first (step + 1) / (step + 10); the average is validated and saved. null: no "
        "average",
    )
    schedule: ScheduleConfig = Field(
        NoamSchedule(kind="noam"), description="learning rate by optimizer step"
    )
    betas: Annotated[tuple[Probability, Probability], Field(strict=False)] = Field(
        (0.9, 0.98), description="Adam's betas"
    )
    eps: PositiveFloat = Field(1e-9, description="Adam's epsilon")
    clip_norm: PositiveFloat | None = Field(
        1.0, description="maximum gradient norm; null: no clipping"
    )
    skip_nonfinite: CountOrZero = Field(
        0,
        description="maximum steps that may be skipped in a whole training because the loss or "
        "gradient is not finite; one more is an error",
    )
    validate_every: Count | None = Field(
        None, description="optimizer steps between validations; null: once an epoch"
    )
    save_every: Count | None = Field(
        None, description="optimizer steps between checkpoints; null: at validations only"
    )
    keep: Count = Field(2, description="newest checkpoints to keep, beside the best one")
    patience: Count | None = Field(
        None, description="stop after this many validations without a better BLEU; null: never"
    )


class DecodingConfig(Section):
    """Search, unless the command line overrides it."""

    beam_size: Count = Field(1, description="beam size; 1 is greedy search")
    length_penalty: Annotated[float, Field(ge=0.0, le=100.0)] = Field(
        0.6,
        description="alpha of Wu et al. 2016 (GNMT), equation 14: a higher value prefers longer "
        "translations, 0 uses log-probabilities alone; beam search only",
    )
    batch_tokens: Count = Field(
        8192,
        description="maximum source tokens in a batch, padding included, times the beam size",
    )
    max_length_ratio: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        2.0, description="maximum output length as a multiple of the source's tokens, plus 10"
    )


class Config(Section):
    """A whole experiment."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        1, description="seed of weights, batches, dropout and sampled subwords"
    )
    init: FilePath | None = Field(
        None,
        description="directory of a run whose tokenizer and best weights this one starts from; "
        "null: random weights",
    )
    data: DataConfig
    tokenizer: TokenizerConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.model.tying == "all" and not self.tokenizer.one_vocabulary:
            raise ValueError(
                "model.tying: 'all' needs one vocabulary for both sides "
                "(subwords with joint: true, or one file for both); use 'output'"
            )
        for key in ("src_bpe_dropout", "tgt_bpe_dropout"):
            if getattr(self.training, key) and not self.tokenizer.may_sample:
                raise ValueError(
                    f"training.{key}: needs merges to leave out (tokenizer.kind sentencepiece "
                    "with model_type: bpe); leave it at 0"
                )
        if (
            self.model.positions == "learned"
            and self.training.max_length >= self.model.max_positions
        ):
            raise ValueError(
                f"model.max_positions: {self.model.max_positions} must be more than "
                f"training.max_length {self.training.max_length} (one position is for EOS)"
            )
        return self

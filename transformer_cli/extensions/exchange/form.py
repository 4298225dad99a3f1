"""Reads the settings, languages and files of a transformers model, without trusting the files."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from transformer_cli.base.errors import TransformerCliError, UsageError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.packages import import_extra
from transformer_cli.config.choices import HIGHEST_PENALTY, LARGEST_BEAM
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.languages import normalize_language
from transformer_cli.config.schema import ModelConfig
from transformer_cli.config.sections import DropoutRate, Layers, Width
from transformer_cli.config.setting_tree import describe_value, shorten
from transformer_cli.extensions.exchange import hub_model
from transformer_cli.runs.directory import MARK

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
SETTINGS = (CONFIG, GENERATION, TOKENIZER_CONFIG)


class ImportedModelError(TransformerCliError):
    """A model of another program that is missing, damaged, or not supported by this one."""


TOKENIZER_FILES = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")  # of a model

_MAX_JSON_SIZE = 1 << 26  # in bytes; ten times the size of OPUS-MT's largest file
# Our length penalty divides by ((5 + length) / 6) ** alpha (Wu et al. 2016); transformers divides
# by length ** penalty. No value makes them equal for all lengths. At this length, in tokens with
# EOS, their slopes are equal.
_TYPICAL_LENGTH = 15
PENALTY_SLOPE = _TYPICAL_LENGTH / (5 + _TYPICAL_LENGTH)
NOT_SHARED = {
    "beam_size",
    "length_penalty",
    "batch_tokens",
    "no_repeat_ngram_size",
    "max_length_ratio",
}
"""Search settings that transformers lacks or defines differently; all others have the same keys."""
_OPUS_NAME = re.compile(r"opus-mt-(?:.+-)?([a-z]{2,3})-([a-z]{2,3})")


# --- files ----------------------------------------------------------------------------------------


class ModelFiles:
    """Reads files in the directory of a transformers model, and records the SHA-256 of each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sha256: dict[str, str] = {}
        self._roots = [directory.resolve()]
        if directory.resolve().parent.name == "snapshots":
            # In the cache of the Hugging Face Hub, files are links to ../../blobs.
            self._roots.append(directory.resolve().parent.parent / "blobs")

    def has(self, name: str) -> bool:
        """Return whether the directory has a file, directory or link with this name."""
        return os.path.lexists(self.directory / name)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file; raise ImportedModelError if it contains none."""
        try:
            content = json.loads(self.read(name, _MAX_JSON_SIZE))
        except (ValueError, RecursionError) as error:
            raise self.error(name, f"is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self.error(name, "is not a JSON object")
        return content

    def read(self, name: str, max_size: int) -> bytes:
        """Return the bytes of a file in the directory; record its SHA-256."""
        path = self.directory / name
        target = Path(os.path.realpath(path))  # resolve() raises other errors for looping links
        if not any(target.is_relative_to(root) for root in self._roots):
            raise self.error(name, "is a link to a file elsewhere; copy it into the directory")
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > max_size:
                    raise self.error(name, f"has {size:,} bytes, more than {max_size:,}")
                data = file.read(size + 1)
        except OSError as error:
            raise self.error(name, f"cannot be read ({error.strerror})") from error
        if data.startswith(hub_model.LFS_POINTER):
            raise self.error(name, "is a Git LFS pointer; get the file with: git lfs pull")
        if len(data) != size:
            raise self.error(name, "changed while it was read; import again")
        self.sha256[name] = hashlib.sha256(data).hexdigest()
        return data

    def error(self, name: str, problem: str) -> ImportedModelError:
        """Return an error that names a file and its problem."""
        return ImportedModelError(f"{self.directory / name}: {problem}")


# --- the Hugging Face Hub -------------------------------------------------------------------------


def fetch(name: str, revision: str | None, files: Sequence[str]) -> Path:
    """Download model files into the Hub's cache; return the directory, named after the commit."""
    what = f"{name} (no such directory exists, so a name on the Hugging Face Hub)"
    hub = import_extra("huggingface_hub", "hub", what)
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except Exception as error:  # of many kinds: network, Hub or disk
        offline = (ConnectionError, TimeoutError, hub.errors.LocalEntryNotFoundError)
        is_offline = isinstance(error, offline)
        problem = "cannot be reached" if is_offline else "returned an error"
        cause: BaseException = error
        # The first error is the most specific.
        while is_offline and (earlier := cause.__cause__ or cause.__context__):
            cause = earlier
        reason = shorten(" ".join(str(cause).split()), 200) or type(cause).__name__
        raise ImportedModelError(
            f"{name}: no such directory exists, and the Hugging Face Hub {problem} ({reason})"
        ) from None


# --- settings and languages -----------------------------------------------------------------------


class _Keys(BaseModel):
    """The base class for the keys of transformers' JSON files; ignores all other keys."""

    model_config = ConfigDict(strict=True, frozen=True, validate_default=True, allow_inf_nan=False)


class TokenizerKeys(_Keys):
    """The keys that we use from tokenizer_config.json."""

    unk_token: str = "<unk>"
    eos_token: str = "</s>"
    pad_token: str = "<pad>"
    separate_vocabs: bool = False
    source_lang: Any = None
    target_lang: Any = None

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, keys: dict[str, Any]) -> dict[str, Any]:
        # Older versions of transformers write a token as an object.
        values = {
            key: value.get("content") if isinstance(value, dict) else value
            for key, value in keys.items()
        }
        return {key: value for key, value in values.items() if value}


class ModelForm(_Keys):
    """The sizes, settings and special ids in a model's JSON files, with our names for them."""

    tokenizer: TokenizerKeys
    search: dict[str, Any] = {}
    """All keys of the JSON files; ``decoding`` uses those that are also settings of ours."""
    type: Literal["marian", "pegasus"] = Field(alias="model_type")
    src_size: int = Field(alias="vocab_size")
    own_tgt_size: int | None = Field(None, alias="decoder_vocab_size")
    is_shared: bool = Field(default=True, alias="share_encoder_decoder_embeddings")
    start_id: int = Field(alias="decoder_start_token_id")
    eos_id: int = Field(alias="eos_token_id")
    pad_id: int = Field(alias="pad_token_id")

    d_model: Width
    num_heads: Width = Field(alias="encoder_attention_heads")
    d_ff: Width = Field(alias="encoder_ffn_dim")
    num_encoder_layers: Layers = Field(alias="encoder_layers")
    num_decoder_layers: Layers = Field(alias="decoder_layers")
    dropout: DropoutRate = 0.0
    attention_dropout: DropoutRate = 0.0
    activation_dropout: DropoutRate = 0.0
    activation: Literal["relu", "gelu", "swish", "silu"] = Field(alias="activation_function")
    beam_size: Annotated[int, Field(gt=0, le=LARGEST_BEAM)] | None = Field(None, alias="num_beams")
    length_penalty: Annotated[float, Field(ge=0, le=HIGHEST_PENALTY * PENALTY_SLOPE)] | None = None

    # Our models always have these values. Some keys are from older versions of transformers.
    scale_embedding: Literal[True]  # required, because transformers does not scale by default
    is_encoder_decoder: Literal[True] = True
    normalize_embedding: Literal[False] = False
    static_position_embeddings: Literal[True] = True
    normalize_before: bool | None = None
    add_final_layer_norm: bool | None = None
    decoder_attention_heads: int
    decoder_ffn_dim: int

    @model_validator(mode="after")
    def _is_as_ours(self) -> Self:
        is_pre_norm = self.type == "pegasus"
        for key, needed in {
            "normalize_before": is_pre_norm,
            "add_final_layer_norm": is_pre_norm,
            "decoder_attention_heads": self.num_heads,
            "decoder_ffn_dim": self.d_ff,
        }.items():
            value = getattr(self, key)
            if value is not None and value != needed:
                here = f"our models need {describe_value(needed)} for the type {self.type}"
                raise ValueError(f"{key}: found {describe_value(value)}; {here}")
        return self

    @property
    def tgt_size(self) -> int:
        """The number of rows of the target embedding."""
        own = None if self.is_shared else self.own_tgt_size
        return self.src_size if own is None else own

    @cached_property
    def model(self) -> ModelConfig:
        """Our model settings; ``tying`` is not set, because it depends on the weights."""
        same = self.model_dump(include=set(ModelConfig.model_fields))
        norm = "pre" if self.type == "pegasus" else "post"
        activation = "swish" if self.activation == "silu" else self.activation
        return ModelConfig(**{**same, "norm": norm, "activation": activation, "tying": "none"})

    @property
    def decoding(self) -> DecodingConfig:
        """Our search settings nearest to those of transformers; see docs/extensions/exchange.md."""
        shared = DecodingConfig.model_fields.keys() - NOT_SHARED
        ours = {key: self.search[key] for key in shared if self.search.get(key) is not None}
        if self.beam_size is not None and self.beam_size > 1:  # else the penalty is only a default
            penalty = 1.0 if self.length_penalty is None else self.length_penalty
            alpha = round(penalty / PENALTY_SLOPE, 3)
            ours |= {"beam_size": self.beam_size, "length_penalty": alpha}
        return DecodingConfig(**ours)


def read_form(files: ModelFiles) -> ModelForm:
    """Read a model's settings; raise ImportedModelError if they are damaged or not supported."""
    if files.has(MARK):
        raise ImportedModelError(f"{files.directory}: is already a transformer-cli run; use it")
    if not files.has(CONFIG):
        problem = f"has no {CONFIG}, so it is not a transformers model"
        raise ImportedModelError(f"{files.directory}: {problem}")
    config, generation, tokenizer = (
        files.read_json(name) if files.has(name) else {} for name in SETTINGS
    )
    if config.get("model_type") == hub_model.MODEL_TYPE:
        problem = "was exported with --format hub; use it directly, without import"
        raise ImportedModelError(f"{files.directory}: {problem}")
    try:
        merged = {**config, **generation}
        form = ModelForm.model_validate({**merged, "tokenizer": tokenizer, "search": merged})
        form.model, form.decoding  # noqa: B018, check that the settings fit together
        return form
    except ValidationError as error:
        first = error.errors()[0]
    name, problem = CONFIG, first["msg"].removeprefix("Value error, ")
    if keys := first["loc"]:  # otherwise the message names the key
        name = (
            TOKENIZER_CONFIG if len(keys) > 1 else GENERATION if keys[0] in generation else CONFIG
        )
        value = "nothing" if first["type"] == "missing" else describe_value(first["input"])
        problem = f"{keys[-1]}: found {value}; {problem.replace('Input', 'it', 1)}"
    raise files.error(name, problem)


def find_languages(
    src: str | None, tgt: str | None, tokenizer: TokenizerKeys, name: str
) -> tuple[str, str]:
    """Return a model's source and target language codes; raise UsageError if they are unknown.

    They come from the options, or else the tokenizer's file, or else a name like 'opus-mt-de-en'.
    """
    opus = _OPUS_NAME.fullmatch(PurePath(name).name)
    found: list[str] = []
    missing: list[str] = []
    for side, option, given, told in (
        (1, "--src-lang", src, tokenizer.source_lang),
        (2, "--tgt-lang", tgt, tokenizer.target_lang),
    ):
        if given is not None and normalize_language(given) is None:
            raise UsageError(f"{option} {given}: is not a language code; give one such as 'de'")
        names = filter(None, (given, told, opus and opus[side]))
        code = next(filter(None, (normalize_language(str(name)) for name in names)), None)
        (found if code else missing).append(code or f"{option} CODE")
    if missing:
        raise UsageError(f"{name}: its languages are unknown; give them: {' '.join(missing)}")
    return found[0], found[1]

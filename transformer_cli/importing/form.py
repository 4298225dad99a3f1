"""What a transformers model is: its config files as our settings, and its languages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import ValidationError

from transformer_cli.config.schema import DecodingConfig, ModelConfig
from transformer_cli.config.sections import LANGUAGE_PATTERN
from transformer_cli.config.setting_tree import describe_value
from transformer_cli.errors import ImportedModelError, UsageError
from transformer_cli.importing.source import CONFIG, GENERATION, TOKENIZER_CONFIG, SourceFiles
from transformer_cli.runs import hub_model
from transformer_cli.runs.directory import MARK

_NORM = {"marian": "post", "pegasus": "pre"}
_SIZES = {
    "d_model": "d_model",
    "num_heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
}
_DROPOUT = ("dropout", "attention_dropout", "activation_dropout")
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Some are of older versions of transformers.
_FORM = {
    "scale_embedding": True,
    "is_encoder_decoder": True,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}
_IF_PRE_NORM = ("normalize_before", "add_final_layer_norm")
# Tokens of an output, EOS included, at which both formulas of a length penalty have the same slope:
# ours divides by ((5 + length) / 6) ** alpha (Wu et al. 2016), transformers' by length ** penalty,
# and no number makes both alike for all lengths.
_TYPICAL_LENGTH = 15
_PENALTY_SLOPE = _TYPICAL_LENGTH / (5 + _TYPICAL_LENGTH)
_OPUS_NAME = re.compile(r"opus-mt-(?:.+-)?([a-z]{2,3})-([a-z]{2,3})")
S = TypeVar("S", ModelConfig, DecodingConfig)


@dataclass(frozen=True)
class ModelForm:
    """A model's form, and its ids."""

    model: ModelConfig
    """Our settings, but for ``tying``, which the weights tell."""
    decoding: DecodingConfig
    src_size: int
    """Rows of the source embedding."""
    tgt_size: int
    start_id: int
    """What outputs start from."""
    eos_id: int
    pad_id: int
    tokenizer: dict[str, Any]
    """What is in tokenizer_config.json."""


def read_form(files: SourceFiles) -> ModelForm:
    """Read a model's form.

    Raises:
        ImportedModelError: our model cannot have it; the key and what was found are named.
    """
    if files.has(MARK):
        raise ImportedModelError(f"{files.directory}: is a run of transformer-cli already; use it")
    if not files.has(CONFIG):
        raise ImportedModelError(
            f"{files.directory}: has no {CONFIG}, so it is no model of transformers"
        )
    config = files.read_json(CONFIG)
    if config.get("model_type") == hub_model.MODEL_TYPE:
        raise ImportedModelError(
            f"{files.directory}: is in the layout of export --format hub; use it as it is"
        )
    generation = files.read_json(GENERATION) if files.has(GENERATION) else {}
    tokenizer = files.read_json(TOKENIZER_CONFIG) if files.has(TOKENIZER_CONFIG) else {}
    try:
        return _form(config, {**config, **generation}, tokenizer)
    except _FormError as error:
        key, problem = error.args
        raise files.error(
            GENERATION if key in generation else CONFIG, f"{key}: {problem}"
        ) from None


class _FormError(Exception):
    """A key, and why what was found there cannot be."""


def _form(
    config: dict[str, Any], generation: dict[str, Any], tokenizer: dict[str, Any]
) -> ModelForm:
    model_type = _one_of(_NORM, config, "model_type")
    _check_form(config, model_type)
    src_size = tgt_size = _integer(config, "vocab_size")
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    if not is_shared and config.get("decoder_vocab_size") is not None:
        tgt_size = _integer(config, "decoder_vocab_size")
    return ModelForm(
        _model_config(config, _NORM[model_type]),
        _decoding_config(generation),
        src_size,
        tgt_size,
        _integer(generation, "decoder_start_token_id"),
        _integer(generation, "eos_token_id"),
        _integer(generation, "pad_token_id"),
        tokenizer,
    )


def _check_form(config: dict[str, Any], model_type: str) -> None:
    is_pre_norm = _NORM[model_type] == "pre"
    for key, needed in (_FORM | dict.fromkeys(_IF_PRE_NORM, is_pre_norm)).items():
        # Where it does not say so, transformers scales no embeddings.
        value = config.get(key, needed and key != "scale_embedding")
        if value is not needed:
            problem = f"expected {describe_value(needed)}, found {describe_value(value)}"
            raise _FormError(key, f"{problem}; our models have no such form for {model_type}")
    for part in ("attention_heads", "ffn_dim"):
        encoder, decoder = (config.get(f"{side}_{part}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            values = (
                f"found {describe_value(decoder)}, and encoder_{part} {describe_value(encoder)}"
            )
            raise _FormError(f"decoder_{part}", f"{values}; in our models both are the same")


def _model_config(config: dict[str, Any], norm: str) -> ModelConfig:
    activation = _one_of(_ACTIVATIONS, config, "activation_function")
    sizes = {ours: _integer(config, theirs) for ours, theirs in _SIZES.items()}
    dropout = {key: config.get(key, 0.0) for key in _DROPOUT}
    form = {"norm": norm, "activation": _ACTIVATIONS[activation], "tying": "none"}
    return _validate(ModelConfig, {**sizes, **dropout, **form})


def _decoding_config(generation: dict[str, Any]) -> DecodingConfig:
    """Return the settings of search that come nearest to transformers'; docs/importing.md."""
    beam_size, penalty = (
        generation.get(key) if generation.get(key) is not None else 1
        for key in ("num_beams", "length_penalty")
    )
    decoding = _validate(DecodingConfig, {"beam_size": beam_size, "length_penalty": penalty})
    alpha = DecodingConfig().length_penalty
    if decoding.beam_size > 1:  # else the penalty is only transformers' default
        alpha = round(decoding.length_penalty / _PENALTY_SLOPE, 3)
    return decoding.model_copy(update={"length_penalty": alpha})


def _validate(section: type[S], settings: dict[str, Any]) -> S:
    try:
        return section.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # of heads and widths, which our keys name
            raise _FormError("d_model", first["msg"].removeprefix("Value error, ")) from None
        key = str(first["loc"][0])
        theirs = {**_SIZES, "beam_size": "num_beams"}.get(key, key)
        reason = first["msg"].replace("Input", "it", 1)
        raise _FormError(theirs, f"found {describe_value(first['input'])}; {reason}") from None


def _integer(config: dict[str, Any], key: str) -> int:
    number = config.get(key)
    if type(number) is not int:
        raise _FormError(key, f"expected a whole number, found {describe_value(number)}")
    return number


def _one_of(allowed: dict[str, str], config: dict[str, Any], key: str) -> str:
    """Return one of transformers' words, that ours is known of."""
    word = config.get(key)
    if not isinstance(word, str) or word not in allowed:
        problem = f"found {describe_value(word)}; only {', '.join(allowed)} can be imported"
        raise _FormError(key, problem)
    return word


def to_transformers_penalty(alpha: float) -> float:
    """Return transformers' ``length_penalty`` for ``decoding.length_penalty``."""
    return round(alpha * _PENALTY_SLOPE, 3)


def find_languages(
    src: str | None, tgt: str | None, settings: Mapping[str, Any], name: str
) -> tuple[str, str]:
    """Return a model's source and target language.

    Args:
        src: what --src-lang says.
        tgt: what --tgt-lang says.
        settings: what is in tokenizer_config.json.
        name: the model's, which may tell, as in 'opus-mt-de-en'.

    Raises:
        UsageError: an option gives no language's code, or nothing tells a language.
    """
    opus = _OPUS_NAME.fullmatch(PurePath(name).name)
    of_name = opus.groups() if opus else (None, None)
    src_lang = _first_code(src, settings.get("source_lang"), of_name[0])
    tgt_lang = _first_code(tgt, settings.get("target_lang"), of_name[1])
    for option, given, code in (("--src-lang", src, src_lang), ("--tgt-lang", tgt, tgt_lang)):
        if given is not None and code != given:
            raise UsageError(f"{option} {given}: is no language's code; give one as in 'de'")
    if src_lang is None or tgt_lang is None:
        languages = {"--src-lang CODE": src_lang, "--tgt-lang CODE": tgt_lang}
        missing = " ".join(option for option, code in languages.items() if code is None)
        raise UsageError(f"{name}: does not tell its languages; give them: {missing}")
    return src_lang, tgt_lang


def _first_code(*codes: object) -> str | None:
    """Return the first that is a language's code."""
    for code in codes:
        if isinstance(code, str) and re.fullmatch(LANGUAGE_PATTERN, code):
            return code
    return None

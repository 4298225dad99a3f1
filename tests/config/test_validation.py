"""Mistakes give one line with the key, its place, the value found and what is expected."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from validating import refusal as refusal_of, validate

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError
from transformer_cli.config.data_schema import FilesData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config

_REQUIRED = "data: {kind: toy}\ntokenizer: {kind: words}\n"


def _listed(kind: str, *of_core: str) -> str:
    """Return the list of installed kinds as a message shows it."""
    *others, last = (f"'{each}'" for each in (*of_core, *registry.entries(kind)))
    return f"{', '.join(others)} or {last}"


_DATA = _listed("corpus", "toy", "files")
_TOKENIZERS = _listed("tokenizer", "words", "sentencepiece")


def test_numbers_fit_where_their_value_does() -> None:
    config = validate(
        _REQUIRED + "training:\n  schedule: {kind: noam, warmup: 4e3, factor: 2}\n  eps: 1e-9\n"
        "  batch_tokens: 4000.0\n  betas: [0, 0.98]\n  clip_norm: null\n"
    )
    assert config.training.schedule.warmup == 4000
    assert isinstance(config.training.schedule.warmup, int)
    assert config.training.batch_tokens == 4000
    assert config.training.eps == 1e-9
    assert config.training.betas == (0.0, 0.98)
    assert isinstance(config.training.betas[0], float)
    assert config.training.clip_norm is None


def test_norwegian_is_a_language_and_paths_start_here() -> None:
    config = validate(
        "data: {kind: files, src_lang: no, tgt_lang: en,\n"
        "  train: {src: a, tgt: 12:30}, val: {src: c, tgt: d}}\n"
        "tokenizer: {kind: words}\n"
    )
    assert config.data.src_lang == "no"
    assert isinstance(config.data, FilesData)
    assert config.data.train.tgt == Path.cwd() / "12:30"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model:\n  num_head: 3\n",
            "x.yaml:4: model.num_head: unknown key; did you mean 'num_heads'?",
        ),
        ("trainin: {}\n", "x.yaml:3: trainin: unknown key; did you mean 'training'?"),
        (
            "decoding:\n  q: 3\n",
            "x.yaml:4: decoding.q: unknown key; "
            f"the keys are {', '.join(DecodingConfig.model_fields)}",
        ),
        (
            "training:\n  q: 3\n",
            "x.yaml:4: training.q: unknown key; it may need an extension; "
            f"{registry.describe_installed()}",
        ),
        ("training:\n  decoding: {}\n", "x.yaml:4: training.decoding: unknown key"),
        (
            "training:\n  schedule:\n    kind: noam\n    warm_up: 3\n",
            "x.yaml:6: training.schedule.warm_up: unknown key for kind 'noam'; "
            "did you mean 'warmup'?",
        ),
        (
            "training:\n  schedule:\n    kind: noam\n    noam: 3\n",
            "x.yaml:6: training.schedule.noam: unknown key for kind 'noam'; "
            "the keys are kind, factor, warmup",
        ),
        (
            "'a.b': 3\n",
            "x.yaml:3: 'a.b': unknown key; "
            "the keys are base, seed, init, data, tokenizer, model, training, decoding, evaluation",
        ),
    ],
)
def test_unknown_keys(text: str, message: str) -> None:
    assert refusal_of(_REQUIRED + text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: '3'", "seed: expected an integer, found the text '3'"),
        ("seed: 1_000", "seed: expected an integer, found the text '1_000'"),
        ("seed: 1.5", "seed: expected an integer, found 1.5"),
        ("seed: true", "seed: expected an integer, found true"),
        ("seed:", "seed: expected an integer, found nothing (null)"),
        ("seed: [1]", "seed: expected an integer, found a list of 1"),
        ("seed: {a: 1}", "seed: expected an integer, found keys and values"),
        ("seed: -1", "seed: expected at least 0, found -1"),
        (f"seed: {2**31}", f"seed: expected less than {2**31}, found {2**31}"),
        ("model:", "model: expected keys and values, found nothing (null)"),
        ("model: {d_model: 0}", "model.d_model: expected more than 0, found 0"),
        ("model: {dropout: 1}", "model.dropout: expected at most 0.9, found 1"),
        ("model: {dropout: '0.1'}", "model.dropout: expected a number, found the text '0.1'"),
        ("model: {norm: Pre}", "model.norm: expected 'pre' or 'post', found the text 'Pre'"),
        ("training: {rdrop_alpha: -1}", "training.rdrop_alpha: expected at least 0.0, found -1"),
        ("training: {ema_decay: 0}", "training.ema_decay: expected more than 0.0, found 0"),
        ("training: {ema_decay: 1}", "training.ema_decay: expected less than 1.0, found 1"),
        ("training: {eps: 1e999}", "training.eps: expected a finite number, found inf"),
        ("training: {eps: .nan}", "training.eps: expected a number, found the text '.nan'"),
        ("training: {betas: 1}", "training.betas: expected a list, found 1"),
        ("training: {betas: [0.9]}", "training.betas[1]: missing"),
        ("training: {betas: [0, 0, 0]}", "training.betas: expected a list of 2, found a list of 3"),
        ("training: {betas: [0, x]}", "training.betas[1]: expected a number, found the text 'x'"),
        ("training: {schedule: 3}", "training.schedule: expected keys and values, found 3"),
        (
            "training: {schedule: {kind: noam, warmup: x}}",
            "training.schedule.warmup: expected an integer, found the text 'x'",
        ),
    ],
)
def test_wrong_values(text: str, message: str) -> None:
    assert refusal_of(_REQUIRED + text) == f"x.yaml:3: {message}"


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("lowercase: no", "lowercase: expected true or false, found the text 'no'"),
        (
            "src_rules: German",
            "src_rules: expected a language code such as 'de', 'pt-BR' or 'zh_TW', ",
        ),
        ("src_rules: 3", "src_rules: expected text, found 3"),
        ("max_size: 4", "max_size: expected at least 5, found 4"),
    ],
)
def test_wrong_values_in_a_section_with_kinds(tokenizer: str, message: str) -> None:
    text = f"data: {{kind: toy}}\ntokenizer:\n  kind: words\n  {tokenizer}\n"
    assert refusal_of(text).startswith(f"x.yaml:4: tokenizer.{message}")


def test_long_values_are_cut() -> None:
    assert len(refusal_of(f"{_REQUIRED}seed: {'x' * 10_000}")) < 200


def test_wrong_values_inside_files_data() -> None:
    text = (
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n"
        "  train: {src: a, tgt: b}\n  val: {src: a, tgt: b}\n  test:\n    files:\n      src: 3\n"
        "      tgt: b\ntokenizer: {kind: words}\n"
    )
    assert refusal_of(text) == "x.yaml:9: data.test.files.src: expected a path, found 3"


def test_paths_of_inheritance_start_here() -> None:
    config = validate(f"init: runs/a\n{_REQUIRED}")
    assert config.init == Path.cwd() / "runs" / "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "data: {kind: file}\ntokenizer: {kind: words}\n",
            f"x.yaml:1: data.kind: expected {_DATA}, found the text 'file'; did you mean 'files'?",
        ),
        (
            "data: {kind: toy}\ntokenizer:\n  kind: [1]\n",
            f"x.yaml:3: tokenizer.kind: expected {_TOKENIZERS}, found a list of 1",
        ),
        (
            "data: {kind: toy}\ntokenizer:\n  lowercase: true\n",
            f"x.yaml:2: tokenizer.kind: missing; choose {_TOKENIZERS}",
        ),
        (
            "tokenizer: {kind: words}\n",
            f"x.yaml: data: missing; give it a kind: {_DATA}",
        ),
        (
            "data: {kind: toy}\ntokenizer: {kind: words}\n"
            "training:\n  schedule:\n    kind: constant\n",
            "x.yaml:4: training.schedule.peak: missing (peak learning rate)",
        ),
    ],
)
def test_kinds_and_what_is_missing(text: str, message: str) -> None:
    assert refusal_of(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model:\n  d_model: 250\n  num_heads: 4\n",
            "x.yaml:5: model.num_heads: 4 heads do not divide d_model 250",
        ),
        (
            "model:\n  d_model: 9\n  num_heads: 3\n",
            "x.yaml:4: model.d_model: sinusoidal positions need an even d_model, not 9",
        ),
        (
            "model:\n  tying: all\n",
            "x.yaml:4: model.tying: 'all' needs one vocabulary for both sides "
            "(subwords with joint: true, or one file for both); use 'output'",
        ),
        (
            "model:\n  positions: learned\n  max_positions: 100\n",
            "x.yaml:5: model.max_positions: 100 must be more than training.max_length 256 "
            "(one position is for EOS)",
        ),
        (
            "training: {max_length: 1000}\nmodel:\n  positions: learned\n",
            "x.yaml:4: model.max_positions: 512 must be more than training.max_length 1000 "
            "(one position is for EOS)",
        ),
    ],
)
def test_keys_that_do_not_fit_each_other(text: str, message: str) -> None:
    assert refusal_of(_REQUIRED + text) == message


def test_keys_of_a_kind_that_do_not_fit_each_other() -> None:
    text = "data:\n  kind: toy\n  tgt_lang: de\ntokenizer: {kind: words}\n"
    assert refusal_of(text) == "x.yaml:3: data.tgt_lang: 'de' is also src_lang; they must differ"
    text = (
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n  train: {src: a, tgt: b}\n"
        "  val: {src: a, tgt: b}\n  test:\n    val: {src: a, tgt: b}\ntokenizer: {kind: words}\n"
    )
    assert refusal_of(text) == (
        "x.yaml:8: data.test.val: the name 'val' is taken; use another name"
    )


def test_the_first_line_is_told_and_the_others_follow() -> None:
    text = _REQUIRED + "training:\n  epochs: 0\nmodel:\n  d_modl: 3\nseed: x\n"
    with pytest.raises(ConfigError) as refusal:
        validate(text)
    assert str(refusal.value) == "x.yaml:4: training.epochs: expected more than 0, found 0"
    assert refusal.value.others == [
        "x.yaml:6: model.d_modl: unknown key; did you mean 'd_model'?",
        "x.yaml:7: seed: expected an integer, found the text 'x'",
    ]


def test_of_very_many_mistakes_some_are_told() -> None:
    with pytest.raises(ConfigError) as refusal:
        validate(_REQUIRED + "".join(f"k{number}: 1\n" for number in range(1000)))
    assert len(refusal.value.others) == 21
    assert refusal.value.others[-1] == "and 979 more errors"


def test_a_misspelt_key_is_not_missing() -> None:
    with pytest.raises(ConfigError) as refusal:
        validate("dta: {kind: toy}\n")
    assert str(refusal.value) == "x.yaml:1: dta: unknown key; did you mean 'data'?"
    assert [line.split(";")[0] for line in refusal.value.others] == [
        "x.yaml: tokenizer: missing",
    ]


@pytest.mark.parametrize(
    ("tokenizer", "is_one"),
    [
        ({"kind": "sentencepiece"}, True),
        ({"kind": "sentencepiece", "joint": False}, False),
    ],
)
def test_tying_needs_one_vocabulary(tokenizer: dict[str, object], is_one: bool) -> None:
    settings = {"data": {"kind": "toy"}, "tokenizer": tokenizer, "model": {"tying": "all"}}
    if is_one:
        config = Config.model_validate(settings)
        # What is settled by files is not written down, and so can be read again.
        assert Config.model_validate(config.model_dump(mode="json")) == config
    else:
        with pytest.raises(ValidationError, match="one vocabulary"):
            Config.model_validate(settings)


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("training: {max_step: 3}\n", "max_steps"),
        ("training: {vocab_size: 3}\n", "tokenizer.vocab_size"),
        ("training: {schedule: {kind: bpe}}\n", None),
    ],
)
def test_a_hint_is_of_what_may_stand_there(setting: str, hint: str | None) -> None:
    refusal = refusal_of(_REQUIRED + setting)
    assert ("did you mean" in refusal) == (hint is not None)
    assert hint is None or f"did you mean '{hint}'" in refusal


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ("beam_size: 3", "beam_size: unknown key; did you mean 'decoding.beam_size'?"),
        ("d_model: 3", "d_model: unknown key; did you mean 'model.d_model'?"),
        (
            "training: {dropout: 0.1}",
            "training.dropout: unknown key; did you mean 'model.dropout'?",
        ),
        ("model: {epochs: 3}", "model.epochs: unknown key; did you mean 'training.epochs'?"),
        ("decoding: {kind: 3}", "decoding.kind: unknown key; the keys are "),
    ],
)
def test_a_key_of_another_section_is_found_there(settings: str, hint: str) -> None:
    assert hint in refusal_of(f"{_REQUIRED}{settings}\n")


def test_a_key_of_another_kind_of_data_is_no_hint() -> None:
    refusal = refusal_of("data: {kind: toy, split: {val: 3}}\ntokenizer: {kind: words}\n")
    assert "data.split: unknown key for kind 'toy'" in refusal
    assert "did you mean" not in refusal

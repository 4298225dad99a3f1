"""Configs and overrides: read strictly, written whole."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config, load_config

_REQUIRED = "data: {kind: toy}\ntokenizer: {kind: words}\n"


def _refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        load_config(path, overrides)
    return str(refusal.value)


def _file(directory: Path, content: str | bytes) -> Path:
    path = directory / "x.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null\n"])
def test_empty_files(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, text)
    assert _refusal(path) == f"{path}: the file is empty; it needs at least data and tokenizer"


@pytest.mark.parametrize(
    ("text", "found"), [("- a\n- b\n", "a list of 2"), ("hello\n", "the text 'hello'"), ("3", "3")]
)
def test_the_top_is_keys_and_values(tmp_path: Path, text: str, found: str) -> None:
    path = _file(tmp_path, text)
    assert _refusal(path, "seed=3") == (
        f"{path}: expected keys such as data and tokenizer, found {found}"
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    assert _refusal(missing) == f"{missing}: no such file; give the path of a YAML file"
    near = _file(tmp_path, _REQUIRED)
    assert _refusal(near.with_stem("mine")).endswith("; give the path of a YAML file")
    assert _refusal(near.with_stem(f"{near.stem}x")).endswith(f"; did you mean '{near}'?")
    assert _refusal(tmp_path) == f"{tmp_path}: is a directory; give the path of a YAML file"
    below = _file(tmp_path, _REQUIRED) / "below"
    assert (
        _refusal(below) == f"{below}: cannot be read: Not a directory; give the path of a YAML file"
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = _file(
        tmp_path, _REQUIRED.encode() + "# caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode("latin-1")
    )
    assert _refusal(path) == f"{path}:3: the byte 0xe9 is not UTF-8; save the file as UTF-8"


@pytest.mark.parametrize("text", ["\ufeff" + _REQUIRED, _REQUIRED.replace("\n", "\r\n")])
def test_byte_order_marks_and_windows_line_ends(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, text)
    assert load_config(path).data.kind == "toy"
    path = _file(tmp_path, text + "sed: 3")
    assert _refusal(path) == f"{path}:3: sed: unknown key; did you mean 'seed'?"


def test_loading_does_not_import_torch() -> None:
    code = "import sys, transformer_cli.config.yaml; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- overrides ------------------------------------------------------------------------------------


def test_overrides_change_add_and_replace(tmp_path: Path) -> None:
    text = "training:\n  epochs: 3\n  schedule: {kind: constant, peak: 1e-3}\n"
    path = _file(tmp_path, _REQUIRED + text)
    config = load_config(
        path,
        [
            "training.epochs=4",
            "training.schedule={kind: noam, warmup: 400}",
            "training.schedule.warmup=5e2",
            "model.d_model=64",
            "training.clip_norm=null",
        ],
    )
    assert config.training.epochs == 4
    assert config.training.schedule.kind == "noam"
    assert config.training.schedule.warmup == 500
    assert config.model.d_model == 64
    assert config.training.clip_norm is None


def test_the_last_override_of_a_key_holds(tmp_path: Path) -> None:
    assert load_config(_file(tmp_path, _REQUIRED), ["seed=3", "seed=4"]).seed == 4


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("model.num_head=3", "model.num_head: unknown key; did you mean 'num_heads'?"),
        ("model.num_heads=3", "model.num_heads: 3 heads do not divide d_model 256"),
        ("seed='3'", "seed: expected an integer, found the text '3'"),
        ("seed=", "seed: expected an integer, found nothing (null)"),
        ("seed.x=3", "seed: is 7 and has no keys to set"),
        ("training.betas.0=0.8", "training.betas: is a list of 2 and has no keys to set"),
        ("seed=[1", "not YAML: expected ',' or ']', but got '<stream end>' (column 3)"),
        ("seed=!!int 3", "the tag !!int is not allowed; leave it out"),
        ("model={norm: pre, norm: post}", "model.norm: written twice; keep one"),
        ("seed", "expected KEY=VALUE, e.g. training.epochs=20"),
        ("=3", "expected KEY=VALUE, e.g. training.epochs=20"),
        ("model..norm=pre", "expected KEY=VALUE, e.g. training.epochs=20"),
    ],
)
def test_refused_overrides(tmp_path: Path, override: str, problem: str) -> None:
    path = _file(tmp_path, f"{_REQUIRED}seed: 7\ntraining: {{betas: [0.9, 0.9]}}\n")
    assert _refusal(path, override) == f"--set {override}: {problem}"


def test_another_kind_does_not_take_the_old_ones_keys(tmp_path: Path) -> None:
    text = "training:\n  schedule:\n    kind: noam\n    factor: 3\n"
    path = _file(tmp_path, _REQUIRED + text)
    overrides = [f"training.schedule.{rest}" for rest in ("kind=linear", "peak=1", "warmup=2")]
    assert _refusal(path, *overrides) == (
        f"{path}:6: training.schedule.factor: unknown key for kind 'linear'; "
        "the keys are kind, peak, warmup"
    )


# --- anything at all ------------------------------------------------------------------------------

_WORDS = ["data", "kind", "toy", "words", "seed", "model", "a", "1", "1e4", "~"]
_MARKS = [*"'\"\\{}[]#%?-:,|>", "&a", "*a", "!!", "!t"]
_SPACES = ["\n", "  ", ": ", "- ", "? ", ", ", "|\n", ">\n", "---\n", "\t", "\0", "\x85", "\u2028"]
_FRAGMENTS = st.sampled_from([*_WORDS, *_MARKS, *_SPACES, _REQUIRED])
_CONTENT = st.one_of(
    st.binary(),
    st.text().map(str.encode),
    st.lists(_FRAGMENTS).map(lambda it: "".join(it).encode()),
)


def _outcome(path: Path, *overrides: str) -> Config | list[str]:
    """Return a config, or the lines of the error."""
    try:
        return load_config(path, overrides)
    except ConfigError as refusal:
        return str(refusal).splitlines()


@settings(max_examples=300, deadline=None)
@given(content=_CONTENT)
def test_any_file_is_a_config_or_a_one_line_refusal(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    outcome = _outcome(_file(tmp_path_factory.getbasetemp(), content))
    assert isinstance(outcome, Config) or len(outcome) == 1


@settings(max_examples=300, deadline=None)
@given(override=st.text() | st.lists(_FRAGMENTS).map(lambda it: f"model.norm={''.join(it)}"))
def test_any_override_is_taken_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, override: str
) -> None:
    path = _file(tmp_path_factory.getbasetemp(), _REQUIRED)
    outcome = _outcome(path, override)
    assert isinstance(outcome, Config) or len(outcome) == 1


# --- writing --------------------------------------------------------------------------------------


def test_the_dump_has_every_key_in_the_schemas_order(tmp_path: Path) -> None:
    text = dump_config(load_config(_file(tmp_path, _REQUIRED)))
    assert text.startswith("seed: 1\ninit: null\ndata:\n  kind: toy\n  src_lang: de\n")
    assert "\n  betas: [0.9, 0.98]\n  eps: 1.0e-09\n  clip_norm: 1.0\n  skip_nonfinite: 0\n" in text
    keys = [line.split(":")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert keys[:4] == ["seed", "init", "data", "tokenizer"]
    assert keys[4:] == ["model", "training", "decoding", "evaluation"]


_POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
_PROBABILITY = st.floats(min_value=0, max_value=1, exclude_max=True)
# What a file can hold: no control characters, surrogates or line separators.
_NAME = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1) | (
    st.sampled_from(
        ["no", "true", "1e4", "0123", "12:30", "~", "null", "- a", "# a", "a: b", " a "]
    )
)
_PAIR = st.fixed_dictionaries({"src": _NAME, "tgt": _NAME})


@st.composite
def _configs(draw: st.DrawFn) -> Config:
    names = _NAME.filter(lambda name: name not in ("train", "val"))
    return Config.model_validate(
        {
            "seed": draw(st.integers(0, 2**31 - 1)),
            "init": draw(st.none() | _NAME),
            "data": {
                "kind": "files",
                "src_lang": draw(st.sampled_from(["no", "de", "pt-BR"])),
                "tgt_lang": "en",
                "train": draw(_PAIR),
                "val": draw(_PAIR),
                "test": draw(st.dictionaries(names, _PAIR, max_size=2)),
                "more": draw(st.lists(_PAIR, max_size=2)),
            },
            "tokenizer": {"kind": "words", "max_size": draw(st.none() | st.integers(5, 10**6))},
            "model": {
                "dropout": draw(st.floats(min_value=0, max_value=0.9)),
                "norm": draw(st.sampled_from(["pre", "post"])),
            },
            "training": {
                "schedule": {"kind": "constant", "peak": draw(_POSITIVE)},
                "betas": (draw(_PROBABILITY), draw(_PROBABILITY)),
                "clip_norm": draw(st.none() | _POSITIVE),
            },
        }
    )


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(config=_configs())
def test_a_dump_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, config: Config
) -> None:
    assert load_config(_file(tmp_path_factory.getbasetemp(), dump_config(config))) == config

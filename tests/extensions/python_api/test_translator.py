"""The interface for Python programs: small, typed, quick to import, and without side effects."""

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Training, own_run, training
from cli.process import run
from faults.test_hostile_models import change_weights

import transformer_cli
from transformer_cli import TransformerCliError, Translation, Translator
from transformer_cli.base.errors import (
    CheckpointError,
    ConfigError,
    InputError,
    RunError,
    UsageError,
)
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.directory import RunDirectory

__all__ = ["own_run", "training"]

LINES = ["x1 x2 x3 x4", "", "x5 x1", "x3 x3 x3"]


@pytest.fixture(scope="module")
def translator(training: Training) -> Translator:
    return Translator.load(training.run, device="cpu")


def test_it_translates_as_the_command_does(training: Training, translator: Translator) -> None:
    text = "".join(f"{line}\n" for line in LINES)
    for beam_size in (1, 3):
        arguments = ("--beam-size", str(beam_size), "--device", "cpu")
        expected = run("translate", training.run, *arguments, stdin=text.encode()).out
        found = translator.translate(LINES, beam_size=beam_size)
        assert found == expected.splitlines()
    assert translator.translate(tuple(LINES), batch_tokens=1) == translator.translate(LINES)
    assert translator.translate([]) == []
    assert (translator.src_lang, translator.tgt_lang) == ("xx", "xx")


def test_it_loads_from_anywhere_and_by_text(
    training: Training, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(training.run.parent)
    loaded = Translator.load(training.run.name, "last", "cpu", "float32")
    monkeypatch.chdir("/")
    assert loaded.translate(LINES) == translator.translate(LINES)


def test_nothing_is_printed_or_changed(
    training: Training, capfd: pytest.CaptureFixture[str]
) -> None:
    before = torch.random.get_rng_state(), torch.get_num_threads()
    Translator.load(training.run, device="cpu").translate(LINES)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert capfd.readouterr() == ("", "")


def test_threads_are_set_on_request(training: Training) -> None:
    before = torch.get_num_threads()
    try:
        Translator.load(training.run, device="cpu", threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_text_is_not_taken_for_its_characters(translator: Translator) -> None:
    with pytest.raises(InputError, match=r"for one, translate\(\[text\]\)"):
        translator.translate("x1 x2")
    lines: Any = ["x1", 2]
    with pytest.raises(InputError, match="line 2 is int, not text"):
        translator.translate(lines)
    with pytest.raises(InputError, match="line 2 cannot be written as UTF-8"):
        translator.translate(["x1", "x\udcff"])


def test_lines_may_come_one_by_one(translator: Translator) -> None:
    assert translator.translate(line for line in LINES) == translator.translate(LINES)
    assert translator.translate(f"{line}\n" for line in LINES) == translator.translate(LINES)


@pytest.mark.parametrize(
    ("wrong", "fragment"),
    [
        ({"device": "gpu"}, "device: expected one of"),
        ({"precision": "float16"}, "precision: expected one of"),
        ({"threads": 0}, "threads: expected at least 1, found 0"),
        ({"threads": 10**9}, "threads: expected at most 4096"),
    ],
)
def test_wrong_choices_are_refused(
    training: Training, wrong: dict[str, Any], fragment: str
) -> None:
    with pytest.raises(UsageError, match=fragment):
        Translator.load(training.run, **wrong)


@pytest.mark.parametrize(
    ("wrong", "fragment"),
    [
        ({"path": None}, "load: path: expected a path, found None"),
        ({"checkpoint": 3}, "load: checkpoint: expected text, found 3"),
        ({"device": None}, "load: device: expected one of"),
        ({"precision": ["int8"]}, "load: precision: expected one of"),
        ({"threads": "2"}, "load: threads: expected an integer, found '2'"),
    ],
)
def test_arguments_of_other_types_are_refused_by_load(wrong: dict[str, Any], fragment: str) -> None:
    with pytest.raises(UsageError, match=fragment):
        Translator.load(**{"path": "no/such/run", **wrong})


@pytest.mark.parametrize(
    ("wrong", "fragment"),
    [
        ({"lines": None}, "takes a list of lines, found NoneType"),
        ({"lines": 5}, "takes a list of lines, found int"),
        ({"lines": b"x1"}, "line 1 is int, not text"),
        ({"prefixes": "x1"}, "takes a list of prefixes, found str; for one, prefixes=."),
        ({"prefixes": [None] * 4}, "prefix 1 is NoneType, not text"),
        ({"prefixes": ["x1"]}, "1 prefixes for 4 lines"),
        ({"beam_size": "4"}, "beam_size: expected an integer, found '4'"),
        ({"beam_size": 2.0}, "beam_size: expected an integer, found 2.0"),
        ({"batch_tokens": True}, "batch_tokens: expected an integer, found True"),
        ({"length_penalty": "1"}, "length_penalty: expected a number, found '1'"),
        ({"length_penalty": -0.1}, "length_penalty: expected 0 to 100, found -0.1"),
        ({"length_penalty": float("nan")}, "length_penalty: expected 0 to 100, found nan"),
        ({"tag": 3}, "tag: expected text, found 3"),
    ],
)
def test_arguments_of_other_types_are_refused(
    translator: Translator, wrong: dict[str, Any], fragment: str
) -> None:
    methods: list[Any] = [translator.translate, translator.translate_n_best]
    for method in methods:
        asked: dict[str, Any] = {"lines": LINES, **wrong}
        with pytest.raises((InputError, UsageError), match=fragment) as refused:
            method(**asked)
        assert str(refused.value).startswith(f"{method.__name__}: ")


@pytest.mark.parametrize(
    ("wrong", "fragment"),
    [
        ({"n_best": None}, "n_best: expected an integer, found None"),
        ({"n_best": 0}, "n_best: expected at least 1"),
        ({"n_best": 3, "beam_size": 2}, "a beam of 2 cannot hold the 3 best"),
        ({"alignments": "links.txt"}, "alignments: expected True or False"),
    ],
)
def test_n_best_lists_that_cannot_be_are_refused(
    translator: Translator, wrong: dict[str, Any], fragment: str
) -> None:
    with pytest.raises(UsageError, match=f"translate_n_best: {fragment}"):
        translator.translate_n_best(LINES, **wrong)


def test_it_translates_like_the_command(
    training: Training, translator: Translator, tmp_path: Path
) -> None:
    """Scores, n-best lists, prefixes, alignments and length penalties."""
    prefixes = ["x2 x2", "", "", "x4"]
    (tmp_path / "starts").write_text("".join(f"{each}\n" for each in prefixes))
    options = ("--n-best", "3", "--prefix-file", "starts", "--alignments", "links")
    text = "".join(f"{line}\n" for line in LINES).encode()
    written = run(
        "translate",
        training.run,
        *options,
        *("--length-penalty", "2.5", "--device", "cpu"),
        stdin=text,
        cwd=tmp_path,
    )
    found = translator.translate_n_best(
        LINES, 3, alignments=True, length_penalty=2.5, prefixes=iter(prefixes)
    )
    expected = [json.loads(line)["translations"] for line in written.out.splitlines()]
    assert [[each.text for each in of_line] for of_line in found] == [
        [each["text"] for each in of_line] for of_line in expected
    ]
    for name in ("score", "log_probability"):
        values = [getattr(each, name) for of_line in found for each in of_line]
        wanted = [each[name] for of_line in expected for each in of_line]
        assert values == pytest.approx(wanted, abs=1e-3)
    links = [" ".join(f"{src}-{tgt}" for src, tgt in best.alignment) for best, *_ in found]
    assert links == (tmp_path / "links").read_text().splitlines()
    assert links[0] != ""
    assert found[1] == [Translation("")]
    best = translator.translate(LINES, beam_size=3, length_penalty=2.5, prefixes=prefixes)
    assert best == [each.text for each, *_ in found]
    assert best[0].startswith("x2 x2")


@pytest.mark.parametrize("name", DecodingConfig.options())
def test_search_settings_equal_the_commands(translator: Translator, name: str) -> None:
    least, most = DecodingConfig.bounds(name)
    assert len(translator.translate(LINES, beam_size=2, **{name: most})) == len(LINES)
    with pytest.raises(UsageError, match=f"translate: {name}: expected .*found {least - 1}"):
        translator.translate(LINES, **{name: least - 1})


def test_a_call_is_searched_by_an_engine_for_its_settings(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Translator._get
    used = []

    def choose(run: RunDirectory, options: ComputeOptions, **others: object) -> str:
        return "torch" if "length_penalty" in options.search else "other"

    def get(translator: Translator, engine: str) -> Any:
        used.append(engine)
        return load(translator, "torch")

    monkeypatch.setattr("transformer_cli.extensions.python_api.translator.choose_engine", choose)
    monkeypatch.setattr(Translator, "_get", get)
    translator = Translator.load(training.run, device="cpu")
    translator.translate(LINES, beam_size=3)
    translator.translate(LINES, length_penalty=2.5)
    assert used == ["other", "other", "torch"]


@pytest.mark.parametrize("name", DecodingConfig.options())
def test_a_model_that_is_loaded_needs_its_run_no_more(own_run: Path, name: str) -> None:
    translator = Translator.load(own_run, device="cpu")
    shutil.rmtree(own_run)
    _, most = DecodingConfig.bounds(name)
    assert len(translator.translate(LINES, **{name: most})) == len(LINES)


@pytest.mark.parametrize("name", ["max_length_ratio", "n_best", "alignments", "method"])
def test_what_is_no_setting_of_the_search_is_refused(translator: Translator, name: str) -> None:
    with pytest.raises(TypeError, match=rf"translate\(\) got an unexpected .* '{name}'"):
        translator.translate(LINES, **{name: 3})


def test_numbers_less_than_one_are_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match="beam_size: expected at least 1, found 0"):
        translator.translate(LINES, beam_size=0)
    with pytest.raises(UsageError, match="batch_tokens"):
        translator.translate(LINES, batch_tokens=-1)


def test_a_missing_file_gives_our_own_error(training: Training, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run directory"):
        Translator.load(tmp_path)
    with pytest.raises(CheckpointError, match="no average yet"):
        Translator.load(training.run, "average")
    for error in (RunError, CheckpointError, InputError, UsageError):
        assert issubclass(error, TransformerCliError)


def test_a_strangers_run_is_refused(own_run: Path) -> None:
    change_weights(own_run, float("nan"))
    with pytest.raises(CheckpointError, match="infinite or not a number"):
        Translator.load(own_run)
    settings = own_run / "config.yaml"
    settings.write_text(re.sub(r"beam_size: \d+", "beam_size: 5000", settings.read_text()))
    with pytest.raises(ConfigError, match="expected at most"):
        Translator.load(own_run)


def test_programs_have_the_same_bounds(translator: Translator) -> None:
    with pytest.raises(UsageError, match="translate: beam_size: expected at most 1000, found 5000"):
        translator.translate(["1 2 3"], beam_size=5000)
    with pytest.raises(UsageError, match="batch_tokens: expected at most 1048576"):
        translator.translate(["1 2 3"], batch_tokens=2**31)
    with pytest.raises(UsageError, match="n_best: expected at most 1000, found 5000"):
        translator.translate_n_best(["1 2 3"], 5000)


@pytest.mark.long
def test_threads_take_turns(translator: Translator) -> None:
    expected = translator.translate(LINES)
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(translator.translate(LINES))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_the_package_is_light_until_it_is_used() -> None:
    program = """
import sys
import transformer_cli
assert not {"torch", "numpy", "pydantic", "typer"} & sys.modules.keys()
from transformer_cli import *
assert "pydantic" in sys.modules and "torch" not in sys.modules
assert Translator is transformer_cli.Translator
assert Translator.__module__ == "transformer_cli.extensions.python_api.translator"
assert issubclass(TransformerCliError, Exception)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_star_imports_the_public_names() -> None:
    assert set(transformer_cli.__all__) == {
        *("Translation", "Translator", "TransformerCliError", "__version__")
    }

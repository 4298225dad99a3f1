"""Models and records that a stranger has made, with right sums: refused in one line, soon."""

import json
import resource
import shutil
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Training
from cli.process import Finished, assert_refused, run
from extensions.ctranslate2.test_converted import texts
from extensions.ctranslate2.test_ctranslate2 import subword_run
from safetensors.torch import load_file, save_file

from faults.test_hostile import make_sums_match, write_content
from transformer_cli.api import Translator
from transformer_cli.base.artifact import FileRecord, Record, record_files, write_record
from transformer_cli.base.errors import CheckpointError, ConfigError, UsageError
from transformer_cli.base.files import cache_directory, sha256
from transformer_cli.extensions.checks.seen_pairs import _find_origins
from transformer_cli.runs.checkpoint import Checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import read_records
from transformer_cli.text import model_check

SECONDS, BYTES = 300, 16 * 2**30


"""The most that a command may take here; each takes a small part."""


def limited(*arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"1 2 3\n") -> Finished:
    return run(*arguments, cwd=cwd, stdin=stdin, before=_limit)


def _limit() -> None:
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def change_weights(run_directory: Path, value: float) -> None:
    for path in (run_directory / "checkpoints").glob("*/model.safetensors"):
        weights = load_file(path)
        name = sorted(weights)[-1]
        weights[name].view(-1)[0] = value
        save_file(weights, path)
    make_sums_match(run_directory)


def conversion_of(path: Path, factor: float, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make what CTranslate2 reads of other weights than the run's, with right sums."""
    other = subword_run(path / "other", joint=True)
    weights = other.checkpoints / "step-00000001" / "model.safetensors"
    save_file({name: each * factor for name, each in load_file(weights).items()}, weights)
    make_sums_match(other.path)
    with monkeypatch.context() as patch:
        patch.setenv("TRANSFORMER_CLI_CACHE", str(path / "strangers"))
        texts(other)
        (made,) = cache_directory("converted").iterdir()
    return made


def test_no_conversion_that_came_with_a_run_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (kept,) = cache_directory("converted").iterdir()
    shutil.rmtree(cache_directory("converted"))
    strange = conversion_of(tmp_path, -1.0, monkeypatch)
    for name in (kept.name, "float32-0123456789abcdef"):
        shutil.copytree(strange, run.path / "converted" / name)
    assert texts(run) == expected
    # Even what the program was to write itself is made of the weights that are there.
    assert sha256(kept / "model.bin") != sha256(strange / "model.bin")


def test_a_manifest_that_claims_other_weights_gets_no_conversion_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    mine = subword_run(tmp_path / "mine", joint=True)
    texts(mine)
    strange = RunDirectory(shutil.copytree(mine.path, tmp_path / "strange"))
    path = strange.checkpoints / "step-00000001" / "model.safetensors"
    save_file({name: -each for name, each in load_file(path).items()}, path)
    with pytest.raises(CheckpointError, match="damaged, its SHA-256 is not the manifest's"):
        texts(strange)


def test_an_exported_models_sums_name_its_own_files_only(tmp_path: Path) -> None:
    directory = tmp_path / "exported"
    own = subword_run(tmp_path / "run", joint=True)
    finished = limited("export", own.path, directory, "--format", "ctranslate2")
    assert finished.code == 0, finished.err
    files = record_files(directory)
    others = ("sums.json", "settings.yaml", "README.md")
    files = {name: files[name] for name in files if name not in others}
    write_record(directory / "sums.json", Record(made_of={}, files=files))
    assert limited("translate", directory, stdin=b"Ein Hund\n").code == 0
    for name in ("/dev/zero", "../run/config.yaml", "settings.yaml"):
        write_record(
            directory / "sums.json",
            Record(made_of={}, files={**files, name: FileRecord(size=0, sha256="0" * 64)}),
        )
        assert_refused(limited("translate", directory), 1, f"{directory}: its files are not those")


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("rows", "said"), [(1, "CTranslate2 crashes on this model"), (2, "Shape mismatch")]
)
def test_an_exported_model_is_tried_where_it_may_crash(
    rows: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    own = subword_run(tmp_path / "run", joint=False)
    directory = tmp_path / "exported"
    assert limited("export", own.path, directory, "--format", "ctranslate2").code == 0
    assert limited("translate", directory, stdin=b"Ein Hund\n").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(model_check, "_try", lambda *_: "tried again")
        assert limited("translate", directory, stdin=b"Ein Hund\n").code == 0
    name = b"decoder/embeddings/weight\0" if rows == 2 else b"encoder/embeddings_0/weight\0"
    model = bytearray((directory / "model.bin").read_bytes())
    place = model.index(name) + len(name) + 1
    height, width = struct.unpack_from("<II", model, place)
    struct.pack_into("<II", model, place, rows, height * width // rows)
    (directory / "model.bin").write_bytes(model)
    files = record_files(directory)
    files = {name: files[name] for name in verified_names(directory)}
    write_record(directory / "sums.json", Record(made_of={}, files=files))
    refused = limited("translate", directory, stdin=b"Ein Hund\n")
    assert_refused(refused, 1, f"{directory}: ")
    assert said in refused.err


def verified_names(directory: Path) -> list[str]:
    return list(json.loads((directory / "sums.json").read_bytes())["content"]["files"])


@pytest.mark.long_cases
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(
    value: float, own_run: Path, config: Path, tmp_path: Path
) -> None:
    change_weights(own_run, value)
    commands: list[list[str | Path]] = [
        ["translate", own_run],
        ["translate", own_run, "--engine", "ctranslate2"],
        ["evaluate", own_run],
        ["export", own_run, tmp_path / "exported", "--format", "ctranslate2"],
        ["average", own_run],
        ["attention", own_run, "1 2 3", "-o", tmp_path / "picture.png"],
        ["train", config, "--run-dir", own_run, "--set", "training.epochs=13", "--extend"],
        ["train", config, "--run-dir", tmp_path / "heir", "--set", f"init={own_run}"],
    ]
    for command in commands[: None if value != value else 2]:
        refused = limited(*command)
        said = [line for line in refused.err.splitlines() if "error" in line]
        assert refused.code == 1
        assert len(said) == 1
        assert "has values that are infinite or no number; use another checkpoint" in said[0]
        assert refused.out == ""
    with pytest.raises(CheckpointError, match="infinite or no number"):
        Translator.load(own_run)


def test_finite_weights_whose_sum_is_not_are_weights(own_run: Path) -> None:
    path = own_run / "checkpoints" / "step-00000060"
    weights = load_file(path / "model.safetensors")
    name = next(name for name, each in weights.items() if each.dim() == 2)
    weights[name] = torch.full_like(weights[name], 3e38)
    save_file(weights, path / "model.safetensors")
    make_sums_match(own_run)
    assert torch.equal(Checkpoint.open(path).load_weights()[name], weights[name])


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("key", "value", "most"),
    [
        ("decoding.beam_size", 5000, "1000"),
        ("decoding.beam_size", 10**9, "1000"),
        ("decoding.batch_tokens", 2**31 - 1, "1048576"),
        ("decoding.max_length_ratio", 1000, "100"),
        ("data.train_lines", 2**31 - 1, "10000000"),
        ("data.test_lines", 10**10, "10000000"),
    ],
)
def test_a_number_that_would_fill_the_memory_is_named(
    key: str, value: int, most: str, own_run: Path
) -> None:
    settings = own_run / "config.yaml"
    name = key.rpartition(".")[2]
    lines = settings.read_text().splitlines()
    section = lines.index(f"{key.partition('.')[0]}:")
    place = next(n for n in range(section, len(lines)) if lines[n].startswith(f"  {name}:"))
    lines[place] = f"  {name}: {value}"
    settings.write_text("\n".join(lines) + "\n")
    said = f"{settings}:{place + 1}: {key}: expected at most {most}"
    assert_refused(limited("translate", own_run), 2, said)
    with pytest.raises(ConfigError, match="expected at most"):
        Translator.load(own_run)


def test_many_long_lines_are_too_many_symbols(config: Path) -> None:
    asked = ["--set", "data.length=10000", "--set", "data.train_lines=1000000"]
    refused = limited("train", config, *asked, "--run-dir", config.parent / "new")
    assert_refused(refused, 2, "data.train_lines: 10,000,000,000 symbols in all; at most")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--beam-size", "a beam of 1,000,000,000: at most 1,000; lower --beam-size or --n-best"),
        ("--n-best", "a beam of 1,000,000,000: at most 1,000; lower --beam-size or --n-best"),
        ("--batch-tokens", "1,000,000,000 tokens a batch: at most 1,048,576; lower --batch-tokens"),
    ],
)
def test_options_have_the_same_bounds(option: str, said: str, training: Training) -> None:
    assert_refused(limited("translate", training.run, option, "1000000000"), 2, said)


def test_programs_have_the_same_bounds(training: Training) -> None:
    translator = Translator.load(training.run, device="cpu")
    with pytest.raises(UsageError, match="at most 1,000; lower `beam_size` or `n_best`"):
        translator.translate(["1 2 3"], beam_size=5000)
    with pytest.raises(UsageError, match="at most 1,048,576; lower `batch_tokens`"):
        translator.translate(["1 2 3"], batch_tokens=2**31)


@pytest.mark.parametrize("form", ["keys", "list"])
def test_keys_without_number_are_refused_soon(form: str, own_run: Path) -> None:
    settings = own_run / "config.yaml"
    keys = (f"k{number}: 1\n" for number in range(60_000))
    more = "".join(keys) if form == "keys" else f"more: [{'1, ' * 300_000}]\n"
    settings.write_text(settings.read_text() + more)
    assert_refused(limited("translate", own_run), 2, "more than 20,000 keys and values")


def test_records_of_other_types_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = {"kind": "validation", "step": 5, "loss": 1.0}
    steps: list[Any] = [10**400, -1, "5", [], None]
    kinds: list[Any] = [1, [], {}, None]
    strange = [{**good, "step": each} for each in steps]
    strange += [{**good, "kind": each} for each in kinds]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [*strange, good, *strange]))
    assert read_records(path) == [good]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "circle"])
def test_a_teacher_that_cannot_be_found_is_no_obstacle(name: str, tmp_path: Path) -> None:
    student = tmp_path / "student"
    student.mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "distill.json").write_text(json.dumps({"teachers": [str(tmp_path / name)]}))
    found = [run.path for run in _find_origins([RunDirectory(student)])]
    assert found == [student, *([tmp_path / name] if name == "circle" else [])]


def test_a_state_has_a_step(own_run: Path) -> None:
    with_state(own_run, lambda state: {key: state[key] for key in state if key != "step"})
    assert_refused(limited("report", own_run), 1, "state.json: damaged")


def with_state(run_directory: Path, change: Callable[[Any], Any]) -> None:
    for path in (run_directory / "checkpoints").glob("*/state.json"):
        write_content(path, change(json.loads(path.read_bytes())["content"]))

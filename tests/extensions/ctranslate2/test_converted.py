"""What is kept of models for CTranslate2: made once, by us alone, verified, bounded."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from extensions.ctranslate2.test_ctranslate2 import TEXT, subword_run
from transformer_cli.base.artifact import Record, record_files, write_record
from transformer_cli.base.errors import CheckpointError
from transformer_cli.base.files import cache_directory, open_cache
from transformer_cli.extensions.ctranslate2 import (
    converted as ctranslate2_converted,
    engine as ctranslate2_engine,
    spec as ctranslate2_spec,
)
from transformer_cli.extensions.ctranslate2.exported_models import verified_sums
from transformer_cli.extensions.exchange.to_hub import write_hub
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model
from transformer_cli.text.tokenizer import fingerprint

CPU = ComputeOptions(device="cpu", threads=1)


def texts(run: RunDirectory, asked: ComputeOptions = CPU, checkpoint: str = "best") -> list[str]:
    return load_translator(run, checkpoint, asked).translate(TEXT)


@contextmanager
def no_conversion(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(ctranslate2_spec, "write_model", lambda *_: pytest.fail("converted again"))
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache" / "transformer-cli"))


def kept() -> list[Path]:
    return sorted(cache_directory("converted").iterdir())


def other_weights(run: RunDirectory, factor: float = 0.9) -> None:
    """Add a checkpoint of other weights, the second step's."""
    weights = Checkpoint.open(run.checkpoints / "step-00000001").load_weights()
    changed = {name: weight * factor for name, weight in weights.items()}
    save_checkpoint(run.checkpoints, changed, {}, {"step": 2}, fingerprint(run.tokenizer))


def test_it_is_made_once_a_type_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    int8 = ComputeOptions(device="cpu", precision="int8", threads=1)
    expected = texts(run, ComputeOptions("torch", "cpu")), texts(run, int8)
    assert texts(run) == expected[0]
    assert [path.name.partition("-")[0] for path in kept()] == ["float32", "int8"]
    with no_conversion(monkeypatch):
        assert (texts(run), texts(run, int8)) == expected
        # A validation changes the state of a checkpoint, but no weight.
        assert texts(run, checkpoint="last") == expected[0]
        # Nor does where the run lies.
        copied = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
        assert texts(copied) == expected[0]
    assert not (run.path / "converted").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept()[0].parents[:2])} == {0o700}


def test_one_of_an_earlier_format_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    monkeypatch.setattr(ctranslate2_converted, "FORMAT", ctranslate2_converted.FORMAT + 1)
    assert texts(run) == expected
    assert len(kept()) == 2


@pytest.mark.parametrize("missing", ["model.bin", "shared_vocabulary.json"])
def test_one_without_a_sum_is_not_intact(missing: str, tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    texts(run)
    (directory,) = kept()
    files = record_files(directory)
    del files["sums.json"]
    write_record(directory / "sums.json", Record(made_of={}, files=files))
    assert verified_sums(directory)
    del files[missing]
    write_record(directory / "sums.json", Record(made_of={}, files=files))
    assert not verified_sums(directory)


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *product(["model.bin", "shared_vocabulary.json", "sums.json"], ["cut", "gone"]),
        ("sums.json", "changed"),  # of the others, sizes are compared
    ],
)
def test_a_damaged_one_is_made_again(name: str, damage: str, tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (directory,) = kept()
    content = (directory / name).read_bytes()
    (directory / name).unlink()
    if damage != "gone":
        half = len(content) // 2
        rest = b"" if damage == "cut" else bytes([content[half] ^ 1]) + content[half + 1 :]
        (directory / name).write_bytes(content[:half] + rest)
    assert not verified_sums(directory)
    assert texts(run) == expected
    assert kept() == [directory]
    assert verified_sums(directory)


def test_the_longest_unused_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    other_weights(run)
    first = texts(run, checkpoint="step-00000001")
    (old,) = kept()
    second = texts(run, checkpoint="step-00000002")
    assert second == texts(run, ComputeOptions("torch", "cpu"), "step-00000002") != first
    (new,) = set(kept()) - {old}
    for path, time in ((old, 2_000), (new, 1_000)):
        os.utime(path, (time, time))
    assert texts(run, checkpoint="step-00000001") == first  # it is used again
    assert old.stat().st_mtime > 2_000
    cache = cache_directory("converted")
    (cache / f"{old.name}.partial-4000000").mkdir()  # of a process that was killed
    being_made = cache / f"{old.name}.partial-{os.getppid()}"
    being_made.mkdir()
    most = 2.5 * sum(path.stat().st_size for path in old.iterdir())
    monkeypatch.setattr(ctranslate2_converted, "MAX_BYTES", most)
    int8 = ComputeOptions(device="cpu", precision="int8", threads=1)
    expected = texts(run, int8)
    *others, newest = kept()
    assert (others, newest.name[:5]) == ([old, being_made], "int8-")
    # The newest one is kept, however large.
    monkeypatch.setattr(ctranslate2_converted, "MAX_BYTES", 1)
    assert texts(run, checkpoint="step-00000002") == second
    assert [path for path in kept() if path != being_made] == [new]
    assert texts(run, int8) == expected


def test_one_that_is_removed_while_it_is_read_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its config.json, CTranslate2 would begin with another token."""
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (directory,) = kept()
    opened: list[Path] = []
    open_engine = ctranslate2_engine.CTranslate2Engine.open

    def remove_and_open(path: Path, *rest: Any) -> Any:
        opened.append(path)
        if path == directory:
            shutil.copytree(path, tmp_path / "whole")
            (path / "config.json").unlink()
            engine = open_engine(path, *rest)
            shutil.rmtree(path)
            # Another process has made it again.
            shutil.copytree(tmp_path / "whole", path)
            return engine
        return open_engine(path, *rest)

    monkeypatch.setattr(ctranslate2_engine.CTranslate2Engine, "open", remove_and_open)
    assert texts(run) == expected
    assert len(opened) == 2
    assert opened[1] != directory


def test_of_several_processes_that_convert_one_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (directory,) = kept()
    directory.rename(tmp_path / "other")
    written: list[Path] = []
    write_model = ctranslate2_spec.write_model

    def write_later(trained: Any, quantization: Any, path: Path) -> None:
        written.append(path)
        write_model(trained, quantization, path)
        (tmp_path / "other").rename(directory)  # that of another process, which was faster

    monkeypatch.setattr(ctranslate2_spec, "write_model", write_later)
    assert texts(run) == expected
    assert len(written) == 1
    assert kept() == [directory]


def test_several_may_convert_at_once(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(texts, [run] * 4))
    assert found == [texts(run, ComputeOptions("torch", "cpu"))] * 4
    assert len(kept()) == 1


@pytest.mark.long_cases
@pytest.mark.posix
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("wrong", ["file", "link", "writable by all", "of another user"])
def test_where_it_cannot_be_kept_it_is_temporary(
    wrong: str, level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run, ComputeOptions("torch", "cpu"))
    cache = cache_directory("converted")
    place = (cache.parent, cache)[level]
    place.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if wrong == "file":
        place.touch()  # as good as a disk that is read-only
    elif wrong == "link":
        place.symlink_to(elsewhere)
    else:
        place.mkdir(mode=0o700)
        if wrong == "writable by all":
            place.chmod(0o777)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert texts(run) == expected
    assert list(elsewhere.iterdir()) == []
    assert not list(tmp_path.rglob("model.bin"))


@pytest.mark.long
@pytest.mark.posix
def test_without_a_home_it_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run, ComputeOptions("torch", "cpu"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("transformer_cli.base.files.cache_directory", lambda name: Path("~") / name)
    assert texts(run) == expected
    assert not list(tmp_path.rglob("model.bin"))


def test_a_relative_cache_lies_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", "relative")
    assert open_cache("converted") == tmp_path / "relative" / "converted"


@pytest.mark.posix
def test_it_lies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSFORMER_CLI_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory("converted") == tmp_path / "transformer-cli" / "converted"


def test_a_shared_model_has_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    shared = tmp_path / "shared"
    shared.mkdir()
    write_hub(run, load_trained_model(run, "best"), shared)
    before = sorted(shared.rglob("*"))
    assert texts(RunDirectory(shared)) == expected
    with no_conversion(monkeypatch):
        assert texts(RunDirectory(shared)) == expected
    assert sorted(shared.rglob("*")) == before


def test_damaged_weights_are_not_converted(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    path = run.checkpoints / "step-00000001" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match="damaged"):
        texts(run)
    assert not list(tmp_path.rglob("model.bin"))


@pytest.mark.long
def test_with_a_kept_one_translate_needs_no_torch(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("torch is asked whether there is a GPU")
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in TEXT))
    program = f"""
import sys
sys.modules["torch"] = None
from transformer_cli.__main__ import main
from transformer_cli.extensions.revision.doubts import DoubtFinder
DoubtFinder.find = lambda *_: ""  # or what a random model repeats would be searched again
sys.argv[1:] = ["translate", {str(run.path)!r}, "-i", {str(tmp_path / "in.txt")!r}]
main()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines() == expected

"""What is kept of a run for CTranslate2: made once, verified, replaced, never needed."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from export.test_ctranslate2 import TEXT, subword_run
from transformer_cli.data.checksummed_json import write_checksummed
from transformer_cli.errors import CheckpointError
from transformer_cli.export.hub import write_hub
from transformer_cli.files import sha256
from transformer_cli.inference import converted, ctranslate2_spec
from transformer_cli.inference.converted import is_intact
from transformer_cli.inference.loading import Computing, load_translator
from transformer_cli.runs.checkpoint import Checkpoint
from transformer_cli.runs.checkpoint_writer import save_checkpoint
from transformer_cli.runs.contents import check_no_foreign_files
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model
from transformer_cli.text.tokenizer import fingerprint

CPU = Computing(device="cpu", threads=1)


def texts(run: RunDirectory, asked: Computing = CPU, checkpoint: str = "best") -> list[str]:
    return load_translator(run, checkpoint, asked).translate(TEXT)


@contextmanager
def no_conversion(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(ctranslate2_spec, "write_model", lambda *_: pytest.fail("converted again"))
        yield


def kept(run: RunDirectory) -> list[Path]:
    return sorted(run.converted.iterdir())


def test_it_is_made_once_a_type_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    int8 = Computing(device="cpu", precision="int8", threads=1)
    expected = texts(run, Computing("torch", "cpu")), texts(run, int8)
    assert texts(run) == expected[0]
    assert [path.name.partition("-")[0] for path in kept(run)] == ["float32", "int8"]
    with no_conversion(monkeypatch):
        assert (texts(run), texts(run, int8)) == expected
        # A validation changes the state of a checkpoint, but no weight.
        assert texts(run, checkpoint="last") == expected[0]
    check_no_foreign_files(run.path)


def test_one_of_an_earlier_format_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (directory,) = kept(run)
    monkeypatch.setattr(converted, "FORMAT", converted.FORMAT + 1)
    assert texts(run) == expected
    assert len(kept(run)) == 1
    assert kept(run) != [directory]


@pytest.mark.parametrize("missing", ["model.bin", "shared_vocabulary.json"])
def test_one_without_a_sum_is_not_intact(missing: str, tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    texts(run)
    (directory,) = kept(run)
    sums = {each.name: sha256(each) for each in directory.iterdir()}
    del sums["sums.json"]
    write_checksummed(directory / "sums.json", converted._Sums(files=sums))
    assert is_intact(directory)
    del sums[missing]
    write_checksummed(directory / "sums.json", converted._Sums(files=sums))
    assert not is_intact(directory)


@pytest.mark.parametrize("name", ["model.bin", "shared_vocabulary.json", "sums.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_one_is_made_again(name: str, damage: str, tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run)
    (directory,) = kept(run)
    content = (directory / name).read_bytes()
    (directory / name).unlink()
    if damage != "gone":
        half = len(content) // 2
        rest = b"" if damage == "cut" else bytes([content[half] ^ 1]) + content[half + 1 :]
        (directory / name).write_bytes(content[:half] + rest)
    assert not is_intact(directory)
    assert texts(run) == expected
    assert kept(run) == [directory]
    assert is_intact(directory)


def test_that_of_another_checkpoint_is_replaced(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    first = texts(run)
    (directory,) = kept(run)
    weights = Checkpoint.open(run.checkpoints / "step-00000001").load_weights()
    changed = {name: weight * 0.9 for name, weight in weights.items()}
    save_checkpoint(run.checkpoints, changed, {}, {"step": 2}, fingerprint(run.tokenizer))
    (run.converted / f"{directory.name}.partial-4000000").mkdir()  # of a process that was killed
    own = run.converted / "float32-of-mine"
    own.mkdir()
    second = texts(run, checkpoint="step-00000002")
    assert second == texts(run, Computing("torch", "cpu"), "step-00000002") != first
    own.rmdir()
    assert len(kept(run)) == 1
    assert kept(run) != [directory]


def test_several_may_convert_at_once(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(texts, [run] * 4))
    assert found == [texts(run, Computing("torch", "cpu"))] * 4
    assert len(kept(run)) == 1


@pytest.mark.posix
def test_where_it_cannot_be_kept_it_is_temporary(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    expected = texts(run, Computing("torch", "cpu"))
    run.converted.touch()  # as good as a disk that is read-only
    assert texts(run) == expected
    run.converted.unlink()
    elsewhere = tmp_path / "float32-0123456789abcdef"
    elsewhere.mkdir()
    run.converted.symlink_to(tmp_path)
    assert texts(run) == expected
    assert elsewhere.is_dir()
    shared = tmp_path / "shared"
    shared.mkdir()
    write_hub(run, load_trained_model(run, "best"), shared)
    before = sorted(shared.rglob("*"))
    assert texts(RunDirectory(shared)) == expected
    assert sorted(shared.rglob("*")) == before


def test_damaged_weights_are_not_converted(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    path = run.checkpoints / "step-00000001" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match="damaged"):
        texts(run)
    assert kept(run) == []


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
sys.argv[1:] = ["translate", {str(run.path)!r}, "-i", {str(tmp_path / "in.txt")!r}]
main()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines() == expected

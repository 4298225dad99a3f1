"""Conversions and exported models that a stranger has made: refused in one line."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from cli.process import assert_refused
from faults.test_hostile import make_sums_match
from faults.test_hostile_models import limited
from safetensors.torch import load_file, save_file

from extensions.ctranslate2.test_converted import texts
from extensions.ctranslate2.test_ctranslate2 import subword_run
from transformer_cli.base.artifact import FileRecord, Record, record_files, write_record
from transformer_cli.base.errors import CheckpointError
from transformer_cli.base.files import cache_directory, sha256
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text import model_check


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
    with pytest.raises(CheckpointError, match="damaged, its SHA-256 differs from the manifest"):
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
        assert_refused(limited("translate", directory), 1, f"{directory}: its files do not match")


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("rows", "said"), [(1, "the ctranslate2 library crashes on this model"), (2, "Shape mismatch")]
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

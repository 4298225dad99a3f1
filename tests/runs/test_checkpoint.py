"""Checkpoints load bit for bit, and errors name files that have changed."""

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor

from transformer_cli.base.artifact import write_record
from transformer_cli.base.errors import CheckpointError, DamagedCheckpointError
from transformer_cli.base.files import sha256
from transformer_cli.base.writing import remove_leftovers
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model.transformer import Transformer, build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import (
    FORMAT,
    Checkpoint,
    CheckpointManifest,
    TrainingState,
    checkpoint_path,
    find_checkpoint,
    list_checkpoints,
    prune_checkpoints,
    read_manifest,
    replace_state,
    save_checkpoint,
)

TOKENIZER = "0123abcd"
MODEL, OPTIMIZER, STATE, MANIFEST = (
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
    "manifest.json",
)

WEIGHTS = {
    # Finite, though their sum is not.
    "b.weight": torch.tensor([[0.1, -0.0, 3.4e38], [1e-45, 3.3e38, -1.0]]),
    "a.bias": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(1 / 3),
}
MOMENTS = {"exp_avg.a": torch.tensor([1e-30, 2.0]), "exp_avg_sq.a": torch.zeros(0, 2)}


def state_of(step: int, best_step: int | None = None) -> dict[str, Any]:
    return {"step": step, "best_step": best_step, "best_loss": float("inf"), "seconds": 0.1 + 0.2}


def rewrite_manifest(path: Path, **changes: Any) -> None:
    """Change a manifest like an attacker, with a matching checksum."""
    write_record(path / MANIFEST, read_manifest(path).model_copy(update=changes))


def save(directory: Path, step: int, best_step: int | None = None) -> Path:
    return save_checkpoint(directory, WEIGHTS, MOMENTS, state_of(step, best_step), TOKENIZER)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], TrainingState]:
    checkpoint = Checkpoint.open(path, TOKENIZER)
    return checkpoint.load_weights(), checkpoint.load_optimizer(), checkpoint.load_state()


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size, bytes]]:
    return {
        name: (each.dtype, each.shape, bytes(each.contiguous().view(-1).view(torch.uint8).tolist()))
        for name, each in tensors.items()
    }


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def model(seed: int, **settings: Any) -> Transformer:
    sizes = {"d_model": 4, "num_heads": 2, "d_ff": 6}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_model(ModelConfig(**sizes | layers | settings), 9, 9, pad_id=3, seed=seed)


# --- what is saved comes back ---------------------------------------------------------------------


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path = save(tmp_path, 12, best_step=7)
    assert path == tmp_path / "step-00000012"
    weights, moments, state = load(path)
    assert bits(weights) == bits(WEIGHTS)
    assert bits(moments) == bits(MOMENTS)
    assert state == TrainingState(**state_of(12, best_step=7))
    assert names(tmp_path) == [path.name]


@pytest.mark.posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_others_may_read_what_the_umask_lets_them(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        path = save_checkpoint(tmp_path, WEIGHTS, MOMENTS, state_of(1), TOKENIZER)
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {mode}


def test_an_error_of_the_library_names_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tensors: object, path: Path) -> None:  # as it does where no inode is left
        raise SafetensorError(f'I/O error: No space left (os error 28) at path "{path}.tmp"')

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(CheckpointError, match=r"No space left \(os error 28\); older ") as caught:
        save_checkpoint(tmp_path, WEIGHTS, MOMENTS, state_of(1), TOKENIZER)
    assert ".partial-" not in str(caught.value)


def test_the_manifest_holds_the_sums_of_the_tensors(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    assert names(path) == sorted([MODEL, OPTIMIZER, STATE, MANIFEST])
    files = {name: sha256(path / name) for name in (MODEL, OPTIMIZER)}
    expected = CheckpointManifest(format=FORMAT, tokenizer=TOKENIZER, files=files)
    assert read_manifest(path) == expected


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    path = save(tmp_path, 3)
    save_checkpoint(tmp_path, MOMENTS, WEIGHTS, state_of(3, 2), TOKENIZER)
    assert bits(load(path)[0]) == bits(MOMENTS)
    assert names(tmp_path) == [path.name]


def cut_short_at_rename(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Make the n-th rename fail, as if the process died there."""
    renames = iter(range(1, 99))
    rename = Path.rename

    def cut_short(source: Path, target: Path) -> Path:
        if next(renames) == call:
            raise KeyboardInterrupt
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", cut_short)


@pytest.mark.parametrize("call", [1, 2])
def test_a_replacement_that_is_cut_short_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    path = save(tmp_path, 3)
    cut_short_at_rename(monkeypatch, call)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, MOMENTS, WEIGHTS, state_of(3, 2), TOKENIZER)
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path, ours=["step-*"])
    assert names(tmp_path) == [path.name]
    assert bits(load(path)[0]) == bits(WEIGHTS)


def test_a_disk_that_is_full_at_the_last_moment_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 3)

    def full(entry: Path) -> None:
        if entry.parent == tmp_path:  # the files are there, the older directory is set aside
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer_cli.base.writing.sync", full)
    with pytest.raises(CheckpointError, match="step-00000003: cannot be written: No space left"):
        save_checkpoint(tmp_path, MOMENTS, WEIGHTS, state_of(3, 2), TOKENIZER)
    assert names(tmp_path) == [path.name]
    assert bits(load(path)[0]) == bits(WEIGHTS)


# --- a step saved again with another state --------------------------------------------------------


def inodes(path: Path) -> list[int]:
    return [(path / name).stat().st_ino for name in (MODEL, OPTIMIZER)]


def test_a_state_is_replaced_without_writing_tensors_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 3)
    files = inodes(path)
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_: pytest.fail("written again"))
    replace_state(tmp_path, state_of(3, 3))
    weights, moments, state = load(path)
    assert (bits(weights), bits(moments)) == (bits(WEIGHTS), bits(MOMENTS))
    assert state == TrainingState(**state_of(3, 3))
    assert inodes(path) == files
    assert names(tmp_path) == [path.name]
    # And once more, as by a session that takes up a validation.
    replace_state(tmp_path, state_of(3, 2))
    assert load(path)[2] == TrainingState(**state_of(3, 2))


def test_a_state_that_is_replaced_halfway_is_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 3)

    def cut_short(source: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", cut_short)
    with pytest.raises(KeyboardInterrupt):
        replace_state(tmp_path, state_of(3, 3))
    monkeypatch.undo()
    (path / "state.json.partial-99999999").touch()  # of a process that was killed
    assert load(path)[2] == TrainingState(**state_of(3))
    replace_state(tmp_path, state_of(3, 3))
    assert load(path)[2] == TrainingState(**state_of(3, 3))
    assert names(path) == sorted([MODEL, OPTIMIZER, STATE, MANIFEST])


def test_the_state_of_a_step_that_is_not_saved_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="step-00000003"):
        replace_state(tmp_path, state_of(3, 3))
    assert names(tmp_path) == []


@pytest.mark.parametrize("tying", ["none", "output", "all"])
def test_tied_weights_are_saved_once_and_loaded_to_be_tied(tmp_path: Path, tying: str) -> None:
    trained, fresh = model(1, tying=tying), model(2, tying=tying)
    path = save_checkpoint(tmp_path, weights_of(trained), {}, state_of(1), TOKENIZER)
    weights = Checkpoint.open(path, TOKENIZER).load_weights()
    tables = [name for name, weight in weights.items() if weight.shape == (9, 4)]
    assert len(tables) == {"none": 3, "output": 2, "all": 1}[tying]
    load_weights(fresh, weights)
    of_fresh, of_trained = fresh.state_dict(), trained.state_dict()
    assert all(torch.equal(of_fresh[name], of_trained[name]) for name in of_trained)
    assert (fresh.output.weight is fresh.tgt_embedding.tokens.weight) == (tying != "none")
    source = fresh.src_embedding.tokens.weight
    assert (source is fresh.tgt_embedding.tokens.weight) == (tying == "all")


def test_saved_weights_are_those_of_the_moment(tmp_path: Path) -> None:
    trained = model(1)
    expected = bits(weights_of(trained))
    path = save_checkpoint(tmp_path, weights_of(trained), {}, state_of(1), TOKENIZER)
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(1.0)
    assert bits(Checkpoint.open(path, TOKENIZER).load_weights()) == expected


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"output.bias": None}, "the checkpoint has no 'output.bias'"),
        ({"output.more": torch.zeros(1)}, "the model has no 'output.more'"),
        (
            {"output.bias": torch.zeros(8)},
            r"'output.bias' has shape \(8,\), but the model's has \(9,\)",
        ),
    ],
)
def test_weights_of_another_model_are_refused(change: dict[str, Tensor | None], found: str) -> None:
    changed = {**weights_of(model(1)), **change}
    weights = {name: weight for name, weight in changed.items() if weight is not None}
    with pytest.raises(CheckpointError, match=found):
        load_weights(model(1), weights)


# --- damage ---------------------------------------------------------------------------------------


def flip(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER, STATE])
def test_a_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1)
    size = (path / name).stat().st_size
    for place in (0, 7, size // 2, size - 1):
        for bit in (0, 7):
            flip(path / name, place, bit)
            with pytest.raises(CheckpointError, match=f"^{path / name}: damaged.*[^\n]$"):
                load(path)
            flip(path / name, place, bit)
    load(path)


def test_a_flipped_bit_in_the_manifest_is_found_or_only_white_space(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    data = (path / MANIFEST).read_bytes()
    said = []
    for place, byte in enumerate(data):
        flip(path / MANIFEST, place, place % 7)
        try:
            weights, moments, state = load(path)
        except DamagedCheckpointError as error:
            said.append(str(error))
        else:
            assert chr(byte).isspace()
            assert (bits(weights), bits(moments)) == (bits(WEIGHTS), bits(MOMENTS))
            assert state == TrainingState(**state_of(1))
        flip(path / MANIFEST, place, place % 7)
    assert len(said) > 0.8 * len(data)
    assert all(str(path) in message and "\n" not in message for message in said)


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER, STATE, MANIFEST])
@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_a_truncated_file_is_found(tmp_path: Path, name: str, kept: float) -> None:
    path = save(tmp_path, 1)
    data = (path / name).read_bytes()
    # JSON can do without the line end, its last byte.
    less = 2 if name in (MANIFEST, STATE) else 1
    (path / name).write_bytes(data[: min(int(kept * len(data)), len(data) - less)])
    with pytest.raises(CheckpointError, match=f"^{path / name}: "):
        load(path)


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER, STATE, MANIFEST])
@pytest.mark.parametrize("instead", [None, "directory"])
def test_a_missing_file_is_named(tmp_path: Path, name: str, instead: str | None) -> None:
    path = save(tmp_path, 1)
    (path / name).unlink()
    if instead:
        (path / name).mkdir()
    with pytest.raises(CheckpointError, match=f"^{path / name}: "):
        load(path)


@pytest.mark.parametrize("manifest", ["[]", "null", "1", '{"format": 1}', "\x00", "{", "\xff"])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, manifest: str) -> None:
    path = save(tmp_path, 1)
    (path / MANIFEST).write_bytes(manifest.encode("latin-1"))
    with pytest.raises(CheckpointError, match=str(path)):
        load(path)


def test_files_that_the_manifest_does_not_know_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    known = {name: sha256(path / name) for name in (MODEL, STATE)}
    rewrite_manifest(path, files=known)
    with pytest.raises(CheckpointError, match=OPTIMIZER):
        load(path)


class Exploding:
    """An object that notices if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER])
@pytest.mark.parametrize("manifest_agrees", [False, True])
def test_a_pickle_is_refused_unread(tmp_path: Path, name: str, manifest_agrees: bool) -> None:
    path = save(tmp_path, 1)
    (path / name).write_bytes(pickle.dumps(Exploding()))
    if manifest_agrees:
        known = {each: sha256(path / each) for each in (MODEL, OPTIMIZER, STATE)}
        rewrite_manifest(path, files=known)
    with pytest.raises(CheckpointError, match=f"^{path / name}: "):
        load(path)


@pytest.mark.parametrize("found", [0, FORMAT + 1, str(FORMAT), None])
def test_another_format_is_refused(tmp_path: Path, found: object) -> None:
    path = save(tmp_path, 1)
    rewrite_manifest(path, format=found)
    said = f"{MANIFEST}: format {found!r}, .* reads format {FORMAT}"
    with pytest.raises(CheckpointError, match=said) as caught:
        Checkpoint.open(path, TOKENIZER)
    # Training does not pass over it for an older one: it is not damaged.
    assert not isinstance(caught.value, DamagedCheckpointError)


def test_a_checkpoint_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=f"^{path}: .*different tokenizer"):
        Checkpoint.open(path, TOKENIZER[::-1])


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere.*missing"):
        Checkpoint.open(tmp_path / "nowhere", TOKENIZER)


# --- which one ------------------------------------------------------------------------------------


def test_checkpoints_are_listed_by_number(tmp_path: Path) -> None:
    steps = [3, 99_999_999, 20, 100_000_000]
    for step in steps:
        (tmp_path / f"step-{step:08d}").mkdir()
    assert [int(path.name[5:]) for path in list_checkpoints(tmp_path)] == sorted(steps)


def test_where_nothing_is_nothing_is_listed(tmp_path: Path) -> None:
    assert list_checkpoints(tmp_path) == list_checkpoints(tmp_path / "nowhere") == []


def test_leftovers_of_killed_writers_are_no_checkpoints(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    shutil.copytree(path, tmp_path / "step-00000002.partial-99999999")
    (tmp_path / "step-3").mkdir()
    assert list_checkpoints(tmp_path) == [path]
    assert find_checkpoint(tmp_path, "last") == path
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [path.name, "step-3"]


def test_last_and_best_and_a_path(tmp_path: Path) -> None:
    first = save(tmp_path, 5, best_step=5)
    last = save(tmp_path, 10, best_step=5)
    assert find_checkpoint(tmp_path, "last") == last
    assert find_checkpoint(tmp_path, "best") == first
    assert find_checkpoint(tmp_path, str(first)) == first
    assert find_checkpoint(tmp_path, first.name) == first
    with pytest.raises(CheckpointError, match=r"^`checkpoint` some/where: not found; give best"):
        find_checkpoint(tmp_path, "some/where")


def test_before_the_first_validation_the_last_is_the_best(tmp_path: Path) -> None:
    save(tmp_path, 5)
    last = save(tmp_path, 10)
    assert find_checkpoint(tmp_path, "best") == last


@pytest.mark.parametrize("which", ["last", "best"])
def test_a_run_without_checkpoints_has_neither(tmp_path: Path, which: str) -> None:
    with pytest.raises(CheckpointError, match=f"^{tmp_path}: no checkpoint yet"):
        find_checkpoint(tmp_path, which)


@pytest.mark.parametrize("best_step", ["10", '"5"', "[5]", "null"])
def test_the_best_is_not_looked_up_in_a_damaged_state(tmp_path: Path, best_step: str) -> None:
    save(tmp_path, 5, best_step=5)
    state = save(tmp_path, 10, best_step=5) / STATE
    state.write_text(state.read_text().replace('"best_step": 5', f'"best_step": {best_step}'))
    with pytest.raises(CheckpointError, match=f"^{state}: "):
        find_checkpoint(tmp_path, "best")


def test_a_time_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    write_record(path / STATE, TrainingState.model_construct(step=5, seconds=float("inf")))
    with pytest.raises(CheckpointError, match=f"^{path / STATE}: damaged"):
        Checkpoint.open(path, TOKENIZER).load_state()


@pytest.mark.parametrize(
    ("keep", "best_step", "left"),
    [(1, 4, [4, 5]), (1, 5, [5]), (2, 1, [1, 4, 5]), (2, 4, [4, 5]), (9, 1, [1, 2, 3, 4, 5])],
)
def test_pruning_keeps_the_newest_and_the_best(
    tmp_path: Path, keep: int, best_step: int, left: list[int]
) -> None:
    for step in range(1, 6):
        save(tmp_path, step, best_step)
    prune_checkpoints(tmp_path, TrainingConfig(keep_last=keep))
    assert [int(path.name[5:]) for path in list_checkpoints(tmp_path)] == left


def test_pruning_does_not_need_the_best_one(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, best_step=2)
    shutil.rmtree(checkpoint_path(tmp_path, 2))
    prune_checkpoints(tmp_path, TrainingConfig(keep_last=1))
    assert [int(path.name[5:]) for path in list_checkpoints(tmp_path)] == [5]


# --- no room --------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = save(tmp_path, 1)

    def save_half(tensors: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", save_half)
    with pytest.raises(CheckpointError, match=r"^[^\n]*step-00000002: [^\n]*No space left[^\n]*$"):
        save(tmp_path, 2)
    assert names(tmp_path) == [older.name]
    load(older)


def test_a_file_in_the_way_leaves_the_older_ones(tmp_path: Path) -> None:
    older = save(tmp_path, 1)
    (tmp_path / "step-00000002").write_text("in the way")
    with pytest.raises(CheckpointError, match="step-00000002: cannot be written"):
        save(tmp_path, 2)
    assert names(tmp_path) == [older.name, "step-00000002"]
    load(older)


@pytest.mark.parametrize("instead", [None, "file"])
def test_a_directory_that_vanished(tmp_path: Path, instead: str | None) -> None:
    directory = tmp_path / "checkpoints"
    if instead:
        directory.touch()
    with pytest.raises(CheckpointError, match="step-00000002: cannot be written"):
        save(directory, 2)

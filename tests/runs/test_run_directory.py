"""When a run directory may be written, and what is kept from an earlier run."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, RunError, UsageError
from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run, record_settings

BACK = {"kind": "toy", "src_lang": "en", "tgt_lang": "de"}


def settings(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Return a run with a tokenizer and encoded text that has not started to train."""
    run = RunDirectory(tmp_path / "runs" / "mine")
    initialize_run(run, settings())
    run.tokenizer.mkdir()
    (run.tokenizer / "tokenizer.json").write_text("learned")
    run.encoded.mkdir()
    (run.encoded / "store.json").write_text("encoded")
    return run


@pytest.fixture
def trained(run: RunDirectory) -> RunDirectory:
    """Return a run that also has a checkpoint and metrics."""
    (run.checkpoints / "step-00000001").mkdir()
    (run.checkpoints / "step-00000001" / "state.json").write_text("{}")
    run.metrics.write_text('{"step": 1}\n')
    return run


def make_trained(path: Path) -> None:
    """Make a directory that looks like a trained run."""
    (path / "checkpoints" / "step-00000001").mkdir(parents=True)
    (path / "config.yaml").touch()


def contents(run: RunDirectory) -> dict[str, str]:
    files = (path for path in run.path.rglob("*") if path.is_file())
    return {str(path.relative_to(run.path)): path.read_text() for path in files}


def test_a_description_touches_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "new")
    paths = (run.config, run.tokenizer, run.encoded, run.checkpoints, run.metrics)
    assert {path.parent for path in paths} == {run.path}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_run_is_made(tmp_path: Path, exists: bool) -> None:
    run = RunDirectory(tmp_path / "deep" / "new")
    if exists:
        run.path.mkdir(parents=True)
    initialize_run(run, settings(seed=5))
    made = sorted(path.name for path in run.path.iterdir())
    assert made == ["checkpoints", "config.yaml", "run.json"]
    assert run.load_config() == settings(seed=5)
    # Every setting is written out: other defaults, one day, do not change this run.
    assert "label_smoothing: 0.1" in run.config.read_text()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_of_something_else_is_refused(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "tokenizer").mkdir()
    run = RunDirectory(tmp_path)
    with pytest.raises(RunError, match=rf"^{tmp_path}: [^\n]*no run\.json[^\n]*`run_dir`$"):
        initialize_run(run, settings(), overwrite)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex", "tokenizer"]


def test_what_is_no_run_has_no_settings(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"^{tmp_path}: not a run directory"):
        RunDirectory(tmp_path).load_config()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mien", "it does not exist; runs here: {runs}/mine"),
        ("", "it has no config.yaml; runs here: {runs}/mine"),
        (
            "mine/checkpoints",
            "it has no config.yaml; make one with: transformer-cli train CONFIG",
        ),
        (
            "mine/checkpoints/step-9",
            "it does not exist; make one with: transformer-cli train CONFIG",
        ),
    ],
)
def test_what_is_near_a_run_leads_to_it(trained: RunDirectory, name: str, advice: str) -> None:
    path = trained.path.parent / name
    with pytest.raises(RunError) as error:
        RunDirectory(path).load_config()
    advice = advice.format(runs=trained.path.parent, path=path)
    assert str(error.value) == f"{path}: not a run directory: {advice}"


def test_the_same_settings_go_on(trained: RunDirectory) -> None:
    before = contents(trained)
    initialize_run(trained, settings())
    assert contents(trained) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("below", "error", "told"),
    [("", UsageError, "is a file; "), ("deeper/run", RunError, "cannot be written: ")],
)
def test_a_file_in_its_place_is_an_error(
    tmp_path: Path, overwrite: bool, below: str, error: type[Exception], told: str
) -> None:
    (tmp_path / "file").write_text("text")
    run = RunDirectory(tmp_path / "file" / below)
    with pytest.raises(error, match=f"^{run.path}: {told}[^\n]+$"):
        initialize_run(run, settings(), overwrite)
    assert (tmp_path / "file").read_text() == "text"


def test_a_full_disk_is_a_run_error(trained: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(trained)

    def no_room(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_room)
    with pytest.raises(RunError, match="cannot be written: No space left on device"):
        record_settings(trained, settings(decoding={"beam_size": 4}), is_finished=False)
    assert contents(trained) == before


# --- changed settings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 2}, "seed was 1, now 2"),
        ({"model": {"d_model": 64}}, "model.d_model was 256, now 64"),
        ({"training": {"validate_every": 9}}, "training.validate_every was null, now 9"),
        ({"training": {"ema_decay": 0.9}}, "training.ema_decay was null, now 0.9"),
        ({"training": {"rdrop_alpha": 5.0}}, "training.rdrop_alpha was 0.0, now 5.0"),
        ({"training": {"schedule": {"kind": "noam", "warmup": 7}}}, "warmup was 4000, now 7"),
        ({"tokenizer": {"kind": "words", "min_freq": 1}}, "tokenizer.min_freq was 2, now 1"),
        ({"data": BACK}, "data.src_lang was de, now en"),
        ({"init": "/runs/other"}, "init was null, now /runs/other"),
        ({"training": {"betas": [0.9, 0.9]}}, "betas was [0.9, 0.98], now [0.9, 0.9]"),
        ({"seed": 2, "training": {"epochs": 11, "eps": 1.0}}, "1, now 2; training.eps was 1e-09"),
    ],
)
def test_a_trained_run_refuses_other_settings(
    trained: RunDirectory, changes: dict[str, Any], said: str
) -> None:
    before = contents(trained)
    with pytest.raises(ConfigError) as caught:
        initialize_run(trained, settings(**changes))
    message = str(caught.value)
    assert message.startswith(f"{trained.path}: ")
    assert said in message
    assert "`overwrite`" in message
    assert "epochs" not in message
    assert "\n" not in message
    assert contents(trained) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"decoding": {"beam_size": 4, "length_penalty": 1.0, "max_length_ratio": 3.0}},
        {"training": {"epochs": 11}},
        {"training": {"max_steps": 7, "patience": 2, "keep_last": 1, "save_every": 5}},
    ],
)
def test_a_trained_run_may_change_its_end(trained: RunDirectory, changes: dict[str, Any]) -> None:
    before = contents(trained)
    initialize_run(trained, settings(**changes))
    assert contents(trained) == before
    record_settings(trained, settings(**changes), is_finished=False)
    assert trained.load_config() == settings(**changes)
    after = contents(trained)
    assert after.pop("config.yaml") != before.pop("config.yaml")
    assert after == before


@pytest.mark.parametrize(
    "changes",
    [
        {"data": BACK},
        {"tokenizer": {"kind": "words", "lowercase": True}},
        {"tokenizer": {"kind": "sentencepiece"}, "seed": 3},
        {"init": "/runs/other"},
    ],
)
def test_before_training_the_tokenizer_follows_its_settings(
    run: RunDirectory, changes: dict[str, Any]
) -> None:
    initialize_run(run, settings(**changes))
    assert not run.tokenizer.exists()
    assert not run.encoded.exists()
    assert run.load_config() == settings(**changes)


@pytest.mark.parametrize(
    "changes", [{}, {"seed": 9}, {"model": {"d_ff": 8}}, {"training": {"batch_tokens": 100}}]
)
def test_before_training_other_settings_keep_the_tokenizer(
    run: RunDirectory, changes: dict[str, Any]
) -> None:
    initialize_run(run, settings(**changes))
    assert (run.tokenizer / "tokenizer.json").read_text() == "learned"
    assert (run.encoded / "store.json").read_text() == "encoded"
    assert run.load_config() == settings(**changes)


# --- killed writers -------------------------------------------------------------------------------


def test_leftovers_of_killed_writers_are_removed(trained: RunDirectory) -> None:
    before = contents(trained)
    (trained.path / "config.yaml.partial-99999999").write_text("half")
    for directory in (
        "tokenizer.partial-99999999",
        "encoded.partial-99999999",
        "checkpoints/step-00000002.partial-99999999",
    ):
        (trained.path / directory).mkdir()
        (trained.path / directory / "half").write_text("half")
    initialize_run(trained, settings())
    assert contents(trained) == before
    assert not list(trained.path.rglob("*.partial-*"))


def test_a_checkpoint_half_written_is_none(run: RunDirectory) -> None:
    (run.checkpoints / "step-00000001.partial-99999999").mkdir()
    initialize_run(run, settings(seed=2))
    assert run.load_config().seed == 2


def test_a_run_killed_while_it_was_made_is_no_hindrance(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.lock.touch()
    (tmp_path / "run.json.partial-99999999").write_text("half")
    initialize_run(run, settings())
    assert run.load_config() == settings()
    assert not list(tmp_path.glob("*.partial-*"))


# --- overwriting ----------------------------------------------------------------------------------


def test_overwriting_does_not_need_the_old_settings(run: RunDirectory) -> None:
    run.config.write_text("from: another version\n")
    initialize_run(run, settings(), overwrite=True)
    assert run.load_config() == settings()
    assert not run.tokenizer.exists()
    assert not run.encoded.exists()


@pytest.mark.parametrize("name", ["tokenizer/words.txt", "encoded/notes.txt"])
def test_a_tokenizer_with_foreign_files_is_not_made_anew(run: RunDirectory, name: str) -> None:
    (run.path / name).write_text("mine")
    with pytest.raises(RunError, match=f"^{run.path / name}: was not written by"):
        initialize_run(run, settings(tokenizer={"kind": "words", "lowercase": True}))
    assert (run.path / name).read_text() == "mine"


def test_leftovers_of_others_stay(trained: RunDirectory) -> None:
    film = trained.path / "film.partial-99999999"
    film.write_text("mine")
    initialize_run(trained, settings())
    assert film.read_text() == "mine"


@pytest.mark.posix
@pytest.mark.parametrize("name", ["checkpoints", "tokenizer", "encoded"])
def test_overwriting_keeps_nothing_silently(trained: RunDirectory, name: str) -> None:
    """A directory that was moved to a larger disk and replaced by a link stays unchanged."""
    elsewhere = trained.path.parent / "larger-disk"
    (trained.path / name).rename(elsewhere)
    (trained.path / name).symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    with pytest.raises(RunError, match=f"/{name}: is a link, "):
        initialize_run(trained, settings(seed=2), overwrite=True)
    assert sorted(elsewhere.iterdir()) == before


class Archived:
    """A model that an extension has exported."""

    def __init__(self, path: Path) -> None:
        self.record = path / "archive.txt"

    def load_config(self) -> Config:
        """Return settings that no run here has."""
        return settings(seed=77)


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an extension with directories of its own."""
    manifest, module = ModuleType("archives.manifest"), ModuleType("archives.model")
    vars(module).update(Archived=Archived)
    manifest.provides = {  # type: ignore[attr-defined]
        "exported model": {"archive": {"mark": "archive.txt", "load": "model:Archived"}},
        "engine": {"fast": {"mark": "fast.bin", "reader": "Racer"}},
    }
    monkeypatch.setitem(sys.modules, "archives", ModuleType("archives"))
    monkeypatch.setitem(sys.modules, "archives.model", module)
    monkeypatch.setattr(registry, "_shipped", lambda: {"archives": manifest})


@pytest.mark.usefixtures("extended")
def test_an_exported_model_has_settings_and_no_checkpoints(run: RunDirectory) -> None:
    assert run.exported is None
    model = RunDirectory(run.path.parent / "model")
    model.path.mkdir()
    (model.path / "archive.txt").touch()
    assert model.load_config().seed == 77
    with pytest.raises(RunError, match="is an exported model, which has no checkpoints"):
        model.check_not_exported()
    # A run stays one, whatever else lies in it.
    (run.path / "archive.txt").touch()
    assert run.exported is None


@pytest.mark.usefixtures("extended")
def test_a_model_exported_for_an_engine_is_used_by_that_alone(run: RunDirectory) -> None:
    assert run.only_engine is None
    model = RunDirectory(run.path.parent / "model")
    model.path.mkdir()
    (model.path / "fast.bin").touch()
    assert model.only_engine is not None
    assert model.only_engine.name == "fast"
    with pytest.raises(RunError, match="is exported for Racer, so only translate can use"):
        model.load_config()

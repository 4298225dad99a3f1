"""The runs that a run may start from; this is checked before any of its files are touched."""

from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_cli.base.errors import (
    CheckpointError,
    ConfigError,
    RunError,
    TokenizerError,
    TransformerCliError,
)
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_settings
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.runs.trained_model import (
    check_init,
    open_checkpoint,
)
from transformer_cli.text.tokenizer import fingerprint

SUBWORDS = {"kind": "sentencepiece", "vocab_size": 50}


def settings(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": SUBWORDS}
    return Config.model_validate({**required, **sections})


def a_run(directory: Path, *steps: int, best: int | None = None, **sections: Any) -> RunDirectory:
    """Return a run whose weights are the numbers of their steps."""
    run = RunDirectory(directory)
    initialize_run(run, settings(**sections))
    run.tokenizer.mkdir()
    (run.tokenizer / "tokenizer.json").write_text(directory.name)
    for step in steps:
        weights = {"a": torch.tensor([float(step)])}
        state = {"step": step, "best_step": best}
        save_checkpoint(run.checkpoints, weights, {}, state, fingerprint(run.tokenizer))
    return run


def check(source: Path, run: RunDirectory, overwrite: bool = False, **sections: Any) -> None:
    check_init(settings(init=str(source), **sections), run, overwrite)


@pytest.fixture
def new(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "new")


def test_the_best_weights_are_inherited(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", 10, 20, 30, best=20)
    assert open_checkpoint(run, "best").load_weights()["a"].item() == 20.0


def test_dropout_may_be_another_one(tmp_path: Path, new: RunDirectory) -> None:
    source = a_run(tmp_path / "source", 10)
    rates = ("dropout", "attention_dropout", "activation_dropout")
    check(source.path, new, model=dict.fromkeys(rates, 0.3), training={"epochs": 3}, seed=5)
    check_init(settings(), new, overwrite=False)  # nothing is asked for
    assert not new.path.exists()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"model": {"num_heads": 8}}, "model.num_heads 4, not 8"),
        (
            {"model": {"norm": "post", "tying": "all"}},
            "model.norm pre, not post, model.tying output, not all",
        ),
        ({"tokenizer": {**SUBWORDS, "vocab_size": 60}}, "tokenizer.vocab_size 50, not 60"),
        ({"tokenizer": {"kind": "words"}}, "tokenizer.kind sentencepiece, not words"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_another_kind_is_refused_by_its_keys(
    tmp_path: Path, new: RunDirectory, sections: dict[str, Any], said: str, overwrite: bool
) -> None:
    source = a_run(tmp_path / "source", 10)
    with pytest.raises(ConfigError) as caught:
        check(source.path, new, overwrite, **sections)
    message = str(caught.value)
    assert message.startswith(f"init: {source.path} has ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("tokenizer", "refused"),
    [
        ({"kind": "words"}, True),
        ({**SUBWORDS, "joint": False}, True),
        (SUBWORDS, False),
    ],
)
def test_only_a_joint_vocabulary_reads_other_languages(
    tmp_path: Path, new: RunDirectory, tokenizer: dict[str, Any], refused: bool
) -> None:
    source = a_run(tmp_path / "source", 10, tokenizer=tokenizer)
    back = {"kind": "toy", "src_lang": "en", "tgt_lang": "de"}
    if not refused:
        check(source.path, new, tokenizer=tokenizer, data=back)
        return
    with pytest.raises(ConfigError, match=r"data\.src_lang de, not en, data\.tgt_lang en"):
        check(source.path, new, tokenizer=tokenizer, data=back)


# --- over a run's own settings --------------------------------------------------------------------

PAIR = "{src: new.de, tgt: new.en}"
FILES = f"{{kind: files, src_lang: de, tgt_lang: en, train: {PAIR}, val: {PAIR}}}"


def over(source: RunDirectory, text: str) -> Config:
    """Return the settings of a file on top of those of a run."""
    file = source.path.parent / "adapted.yaml"
    file.write_text(f"base: {source.path.name}/config.yaml\n{text}")
    return load_settings(file)[0]


def test_a_run_is_adapted_to_another_kind_of_data_in_two_keys(
    tmp_path: Path, new: RunDirectory
) -> None:
    old, data = {"kind": "toy", "src_lang": "de", "tgt_lang": "en"}, FILES
    source = a_run(tmp_path / "source", 10, data=old, model={"d_ff": 512}, init="an/older/run")
    config = over(source, f"init: {source.path}\ndata: {data}\ntraining: {{epochs: 3}}\n")
    whole = tmp_path / "whole.yaml"
    whole.write_text(f"data: {data}\ntokenizer: {{kind: words}}\n")
    assert config.data == load_settings(whole)[0].data
    assert (config.model.d_ff, config.tokenizer.kind) == (512, "sentencepiece")
    check_init(config, new, overwrite=False)


@pytest.mark.parametrize(
    ("missing", "error", "said"),
    [
        ("config.yaml", RunError, "{}: not a run directory"),
        ("tokenizer/tokenizer.json", TokenizerError, "{}/tokenizer/tokenizer.json: cannot be"),
        ("checkpoints/step-00000010", CheckpointError, "{}/checkpoints: no checkpoint yet"),
    ],
)
def test_what_has_nothing_to_start_from_is_refused(
    tmp_path: Path,
    new: RunDirectory,
    missing: str,
    error: type[TransformerCliError],
    said: str,
) -> None:
    source = a_run(tmp_path / "source", 10)
    (source.path / missing).rename(tmp_path / "elsewhere")
    with pytest.raises(error) as caught:
        check(source.path, new)
    assert str(caught.value).startswith(said.format(source.path))
    assert "\n" not in str(caught.value)


@pytest.mark.posix
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("steps", [(), (10,)])
def test_the_run_directory_itself_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    overwrite: bool,
    steps: tuple[int, ...],
) -> None:
    run = a_run(tmp_path / "run", *steps)
    (tmp_path / "link").symlink_to(run.path)
    monkeypatch.chdir(run.path)
    for name in (run.path, tmp_path / "link", run.path / ".." / "run"):
        for same in (run, RunDirectory(Path("../run")), RunDirectory(Path())):
            if steps and not overwrite:
                check(name, same)  # its settings have changed: prepare refuses
                continue
            with pytest.raises(ConfigError, match=r"^init: .* the run directory itself; [^\n]*$"):
                check(name, same, overwrite)


def test_a_run_that_goes_on_does_not_ask(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", 10)
    check(tmp_path / "deleted", run)
    with pytest.raises(RunError, match="deleted: not a run directory"):
        check(tmp_path / "deleted", run, overwrite=True)

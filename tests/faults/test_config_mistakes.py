"""Mistakes in a configuration: one line that names place and key, exit code 2, nothing touched."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from cli.conftest import TINY, Training
from cli.process import Finished, assert_refused, run
from cli.same import assert_same_run
from copied_text import DATA
from installed import has_command


def tiny(old: str, new: str) -> str:
    """The tiny experiment with another text for one of its own."""
    assert TINY.count(old) == 1
    return TINY.replace(old, new)


MISTAKES = {
    "a misspelt key": (
        tiny("  save_every: 10", "  save_evry: 10"),
        "8: training.save_evry: unknown key; did you mean 'save_every'?",
    ),
    "a misspelt section": (
        tiny("training:", "trainig:"),
        "4: trainig: unknown key; did you mean 'training'?",
    ),
    "a key of another kind": (
        tiny("{kind: words, min_freq: 1}", "{kind: words, vocab_size: 9}"),
        "2: tokenizer.vocab_size: unknown key for kind 'words'",
    ),
    "a key written twice": (
        TINY + "  epochs: 3\n",
        "10: training.epochs: written twice, first on line 5; keep one",
    ),
    "text for a number": (
        tiny("epochs: 12", "epochs: a dozen"),
        "5: training.epochs: expected an integer, found the text 'a dozen'",
    ),
    "a number for a section": (
        tiny(f"data: {DATA}", "data: 3"),
        "1: data: expected keys and values, found 3",
    ),
    "a fraction for a number of things": (
        tiny("batch_tokens: 200", "batch_tokens: 2.5"),
        "6: training.batch_tokens: expected an integer, found 2.5",
    ),
    "nothing": (tiny("epochs: 12", "epochs:"), "5: training.epochs: expected an integer"),
    "no steps": (tiny("epochs: 12", "epochs: 0"), "5: training.epochs: expected more than 0"),
    "a rate below zero": (
        tiny("peak: 1e-2", "peak: -1e-2"),
        "9: training.schedule.peak: expected more than 0.0, found -0.01",
    ),
    "all units dropped": (
        tiny("{d_model: 16,", "{dropout: 1.0, d_model: 16,"),
        "3: model.dropout: expected at most 0.9, found 1",
    ),
    "heads that do not divide": (
        tiny("num_heads: 2", "num_heads: 3"),
        "3: model.num_heads: 3 heads do not divide d_model 16",
    ),
    "an unknown kind": (
        tiny("kind: constant", "kind: constnat"),
        "9: training.schedule.kind: expected 'noam', 'constant'",
    ),
    "a missing kind": (tiny("{kind: words, min_freq: 1}", "{min_freq: 1}"), "tokenizer.kind: "),
    "no YAML": (TINY + "  - 3: [\n", "not YAML: "),
    "a tag": (TINY + "seed: !!python/object/apply:os.system [exit]\n", "10: the tag "),
    # Beyond what libraries take, which would say so by a traceback.
    "a model wider than any": (
        tiny("d_ff: 32", "d_ff: 1000000000000000000000"),
        "3: model.d_ff: expected at most 1048576, found 1000000000000000000000",
    ),
    "more layers than any": (
        tiny("num_encoder_layers: 1", "num_encoder_layers: 1e6"),
        "3: model.num_encoder_layers: expected at most 1000, found 1000000",
    ),
    "a sum without end": (
        TINY + "  accumulate: 1e30\n",
        "10: training.accumulate: expected less than 2147483648, found 1",
    ),
    "differences that weigh too much": (
        TINY + "  rdrop_alpha: 1e300\n",
        "10: training.rdrop_alpha: expected at most 1000000.0, found 1",
    ),
    "outputs without end": (
        TINY + "decoding: {max_length_ratio: 1e300}\n",
        "10: decoding.max_length_ratio: expected at most 100.0, found 1",
    ),
    "more subwords than there are numbers": (
        tiny("{kind: words, min_freq: 1}", "{kind: sentencepiece, vocab_size: 1e20}"),
        "2: tokenizer.vocab_size: expected less than 2147483648, found 1",
    ),
}


@pytest.mark.long_cases
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(tmp_path: Path, mistake: str) -> None:
    text, message = MISTAKES[mistake]
    config = tmp_path / "tiny.yaml"
    config.write_text(text)
    refused = run("train", "tiny.yaml", cwd=tmp_path)
    assert_refused(refused, 2, "tiny.yaml:", message)
    assert list(tmp_path.iterdir()) == [config]


def test_several_mistakes_are_a_line_each(tmp_path: Path) -> None:
    text = tiny("  save_every: 10", "  dropout: 0.1").replace("epochs: 12", "epochs: a dozen")
    (tmp_path / "tiny.yaml").write_text(text)
    commands = (["train"], ["config", "validate"])
    for command in (each for each in commands if has_command(each[0])):
        refused = run(*command, "tiny.yaml", cwd=tmp_path)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.splitlines() == [
            "transformer-cli: error: tiny.yaml:5: training.epochs: expected an integer, found "
            "the text 'a dozen'",
            "transformer-cli: error: tiny.yaml:8: training.dropout: unknown key; did you mean "
            "'model.dropout'?",
        ]


# --- settings that change while a run is under way ------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (["seed=2"], "seed was 1, now 2"),
        (["model.norm=post"], "model.norm was pre, now post"),
        (["training.clip_norm=null"], "training.clip_norm was 1.0, now null"),
        (["tokenizer.lowercase=true"], "tokenizer.lowercase was false, now true"),
        (["training.betas=[0.9, 0.9]"], "training.betas was [0.9, 0.98], now [0.9, 0.9]"),
        (["seed=2", "data.src_lang=de"], "seed was 1, now 2; data.src_lang was xx, now de"),
    ],
)
def test_changed_settings(
    training: Training, own_run: Path, settings: list[str], difference: str
) -> None:
    options = [part for setting in settings for part in ("--set", setting)]
    refused = run("train", training.config, "--run-dir", own_run, *options)
    assert_refused(
        refused,
        2,
        f"{own_run}: trained with other settings ({difference}); ",
        "use the old settings, choose another --run-dir, or start again with --overwrite",
    )
    assert_same_run(own_run, training.run)


# --- files that move ------------------------------------------------------------------------------

FILES = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: val.de, tgt: val.en}
tokenizer: {kind: words, min_freq: 1}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training: {epochs: 1, batch_tokens: 100}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """An experiment on files, trained for one epoch."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "files.yaml").write_text(FILES)
    for name in ("train", "val", "other"):
        # Each has other pairs, and none is like another's, or they would be warned of.
        (checkout / f"{name}.de").write_text(f"eins {name} {name}zwei\ndrei {name}vier\n" * 10)
        (checkout / f"{name}.en").write_text(f"one {name} {name}two\nthree {name}four\n" * 10)
    finished = run("train", "files.yaml", "--run-dir", "run", cwd=checkout)
    assert finished.code == 0, finished.err
    return checkout


def test_a_moved_checkout_goes_on(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("elsewhere"))
    more = ("--set", "training.epochs=2")
    finished = run("train", "files.yaml", "--run-dir", "run", *more, cwd=moved)
    assert finished.code == 0, finished.err
    assert re.search(r"^resuming from step \d+$", finished.err, re.MULTILINE)
    assert str(checkout) not in (moved / "run" / "config.yaml").read_text()


def test_a_moved_checkout_with_other_text_is_refused(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("elsewhere"))
    (moved / "train.de").write_text("eins zwei drei\nsieben\n" * 10)
    refused = run("train", "files.yaml", "--run-dir", "run", cwd=moved)
    assert_refused(last_line(refused), 1, "run: the training text has changed since this run began")


@pytest.mark.parametrize("split", ["train", "val"])
def test_other_files_are_other_settings_while_the_old_ones_are_there(
    checkout: Path, split: str
) -> None:
    other = ("--set", f"data.{split}={{src: other.de, tgt: other.en}}")
    refused = run("train", "files.yaml", "--run-dir", "run", *other, cwd=checkout)
    was, now = checkout / f"{split}.de", checkout / "other.de"
    expected = f"run: trained with other settings (data.{split}.src was {was}, now {now}; "
    assert_refused(last_line(refused), 2, expected)


def last_line(finished: Finished) -> Finished:
    """Without what was said before: how near the validation text is to the new training text."""
    return replace(finished, err=finished.err.splitlines(keepends=True)[-1])

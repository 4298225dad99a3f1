"""ONNX Runtime computes the same as our model, and searches alike with the documented snippet."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from cli.conftest import TINY, Training
from cli.process import assert_refused, run
from inference.translators import translate_ids
from texts import read_texts

from transformer_cli.base.files import sha256
from transformer_cli.config.yaml import load_config
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.model.transformer import Transformer, build_model, weights_of
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.runs.trained_model import load_trained_model
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.training.preparation import prepare_data

DOCUMENT = Path(__file__).parents[3] / "docs" / "extensions" / "exchange.md"
SUBWORDS = "{kind: sentencepiece, model_type: bpe, vocab_size: 270}"
SIZES = "d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 2, num_decoder_layers: 2"
FORMS = {
    "pre-norm, relu, tied output": "norm: pre, activation: relu, tying: output",
    "post-norm, gelu, tied at all": "norm: post, activation: gelu, tying: all",
    "swiglu, learned positions, untied": (
        "activation: swiglu, positions: learned, max_positions: 600, tying: none"
    ),
    "unlike stacks": "num_encoder_layers: 1, num_decoder_layers: 3",
}


_session = onnxruntime.InferenceSession


def on_one_thread(path: Path) -> Any:
    """Use one thread: several would spin while waiting if other tests run on the machine."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return _session(path, options)


@pytest.fixture(autouse=True)
def _snippets_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", on_one_thread)


@dataclass(frozen=True)
class Sessions:
    """An exported model in ONNX Runtime."""

    directory: Path
    encoder: Any
    decoder: Any

    @classmethod
    def of(cls, directory: Path) -> "Sessions":
        names = ("encoder.onnx", "decoder_step.onnx")
        return cls(directory, *(on_one_thread(directory / name) for name in names))

    def logits(self, src: np.ndarray, tgt_in: np.ndarray) -> np.ndarray:
        """The logits after each token of ``tgt_in``, step by step."""
        memory = self.encoder.run(None, {"src": src})
        past = [each[:, :, :0] for each in memory[1:]]
        names = [each.name for each in self.decoder.get_inputs()]
        steps = []
        for position in range(tgt_in.shape[1]):
            tokens = tgt_in[:, position : position + 1]
            feeds = dict(zip(names, [tokens, *memory, *past], strict=True))
            logits, *past = self.decoder.run(None, feeds)
            steps.append(logits)
        return np.stack(steps, axis=1)


def random_run(directory: Path, model: str) -> RunDirectory:
    """A run whose only checkpoint has never been trained."""
    given = TINY.replace("{kind: words, min_freq: 1}", SUBWORDS)
    first, _, rest = given.partition("model: ")
    keys = {each.split(":")[0].strip() for each in model.split(",")}
    sizes = ", ".join(each for each in SIZES.split(", ") if each.split(":")[0] not in keys)
    text = f"{first}model: {{{sizes}, {model}}}{rest[rest.index('}') + 1 :]}"
    (directory / "given.yaml").write_text(text)
    settings = load_config(directory / "given.yaml")
    found = RunDirectory(directory / "run")
    initialize_run(found, settings)
    tokenizers = prepare_data(settings, read_texts(settings.data), found).tokenizers
    built = build_model(settings.model, tokenizers.src.size, tokenizers.tgt.size, PAD_ID, 1)
    weights = weights_of(built)
    save_checkpoint(found.checkpoints, weights, {}, {"step": 0}, fingerprint(found.tokenizer))
    return found


@pytest.fixture(scope="module")
def sessions(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    """The trained model."""
    directory = tmp_path_factory.mktemp("onnx") / "exported"
    finished = run("export", training.run, directory, "--format", "onnx")
    assert (finished.code, finished.err) == (0, "")  # the exporter's warnings are not for users
    assert finished.out == f"{directory}: step-00000060 of {training.run}, for onnx\n"
    return Sessions.of(directory)


def rows(shape: tuple[int, int], size: int, lengths: list[int] | None = None) -> np.ndarray:
    """Random ids; sources have padding after their ends."""
    ids = np.random.default_rng(1).integers(4, size, shape)
    for row, length in zip(ids, lengths or [], strict=False):
        row[length - 1], row[length:] = EOS_ID, PAD_ID
    return ids


def ours(model: Transformer, src: np.ndarray, tgt_in: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return np.asarray(model(torch.from_numpy(src), torch.from_numpy(tgt_in)))


@pytest.mark.long_cases
@pytest.mark.parametrize("form", FORMS)
def test_logits_are_ours(form: str, tmp_path: Path) -> None:
    source = random_run(tmp_path, FORMS[form])
    finished = run("export", source.path, tmp_path / "exported", "--format", "onnx")
    assert (finished.code, finished.err) == (0, "")
    sessions = Sessions.of(tmp_path / "exported")
    model = load_trained_model(source, "best").model
    size = model.tgt_size
    for lengths, steps in [([1], 1), ([2], 5), ([7, 3, 1, 7], 9), ([300, 20], 270)]:
        src = rows((len(lengths), max(lengths)), size, lengths)
        tgt_in = rows((len(lengths), steps), size)
        tgt_in[:, 0] = BOS_ID
        found, expected = sessions.logits(src, tgt_in), ours(model, src, tgt_in)
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    about = json.loads((tmp_path / "exported" / "onnx.json").read_text())
    learned = {"src": 600, "tgt": 600}
    assert about["longest"] == (learned if "learned" in form else {"src": 1025, "tgt": 2058})


def test_a_trained_models_logits_are_ours(training: Training, sessions: Sessions) -> None:
    model = load_trained_model(RunDirectory(training.run), "best").model
    src, tgt_in = rows((3, 6), model.tgt_size, [6, 2, 4]), rows((3, 7), model.tgt_size)
    expected = ours(model, src, tgt_in)
    np.testing.assert_allclose(sessions.logits(src, tgt_in), expected, atol=1e-4, rtol=0)


def test_the_documented_search_writes_the_same_as_ours(
    training: Training, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippet, *_ = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert 'Path("exported")' in snippet
    monkeypatch.chdir(sessions.directory.parent)
    names: dict[str, Any] = {}
    exec(snippet, names)
    translator = load_torch_translator(
        RunDirectory(training.run), "best", ComputeOptions(device="cpu")
    )
    sizes = [1, 4, 4, 2, 7, 12, 3]
    sources = [rows((1, size), translator.engine.model.tgt_size)[0].tolist() for size in sizes]
    expected = translate_ids(translator, [[*ids, EOS_ID] for ids in sources])
    assert names["greedy"](sources) == expected
    assert [names["greedy"]([ids])[0] for ids in sources] == expected
    assert all(expected)


@pytest.mark.long
def test_the_documented_use_of_subwords_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = random_run(tmp_path, "tying: all")
    run("export", source.path, tmp_path / "exported", "--format", "onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[:2]:
        exec(snippet, names)
    translator = load_torch_translator(source, "best", ComputeOptions(device="cpu"))
    assert capsys.readouterr().out == f"{translator.translate(names['lines'])}\n"
    # An untrained model writes up to the length limits, which differ.
    sources = [[7], [5, 6, 7, 8], [9] * 12]
    expected = translate_ids(translator, [[*ids, EOS_ID] for ids in sources])
    assert names["greedy"](sources) == expected
    assert [len(ids) for ids in expected] == [12, 18, 34]


def test_the_description_has_the_graphs_inputs_and_outputs(
    training: Training, sessions: Sessions
) -> None:
    about = json.loads((sessions.directory / "onnx.json").read_text())
    for name, session in (
        ("encoder.onnx", sessions.encoder),
        ("decoder_step.onnx", sessions.decoder),
    ):
        graph = about["graphs"][name]
        assert graph["sha256"] == sha256(sessions.directory / name)
        for told, found in (
            (graph["inputs"], session.get_inputs()),
            (graph["outputs"], session.get_outputs()),
        ):
            assert list(told) == [each.name for each in found]
            for each in found:
                kind, shape = told[each.name]["type"], told[each.name]["shape"]
                assert each.type == f"tensor({kind.replace('float32', 'float')})"
                assert len(each.shape) == len(shape)
                for size, told_size in zip(each.shape, shape, strict=True):
                    assert isinstance(told_size, str) or size == told_size
    assert "reserved" not in about
    assert about["ids"] == {"unk": 0, "bos": 1, "eos": 2, "pad": 3}
    copied, kept = sessions.directory / "tokenizer", training.run / "tokenizer"
    assert {path.name for path in copied.iterdir()} == {path.name for path in kept.iterdir()}


def test_quantization_is_refused(training: Training, tmp_path: Path) -> None:
    finished = run(
        "export", training.run, tmp_path / "new", "--format", "onnx", "--quantization", "int8"
    )
    assert_refused(finished, 2, "--quantization int8", "onnx does not support it")
    assert not (tmp_path / "new").exists()

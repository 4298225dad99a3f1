"""Exports a trained model as a web page, in which the browser translates."""

import json
import shutil
from base64 import b64encode
from hashlib import sha384
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import transformer_cli.extensions.serve as serve
from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import read_json, read_small, sha256
from transformer_cli.base.text_files import write_text
from transformer_cli.config.languages import base_language
from transformer_cli.config.schema import Config
from transformer_cli.extensions.exchange.card import write_card
from transformer_cli.extensions.exchange.formats import check_tokenizers, write_json
from transformer_cli.extensions.exchange.to_onnx import DECODER, DESCRIPTION, ENCODER, write_onnx
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizers

_HERE = Path(__file__).parent
PAGES = Path(serve.__path__[0], "page"), _HERE / "page"
_WEIGHTS = "weights.bin"
_RUNTIME = "onnxruntime-web@1.30.0"
_INSTALLED = Path("node_modules/onnxruntime-web/dist")


def check_web(config: Config, tokenizers: Tokenizers) -> None:
    """Raise UsageError if the page does not support the tokenizers."""
    is_supported = config.tokenizer.kind == "sentencepiece"
    check_tokenizers("web", "the page", is_supported, config, tokenizers)


def write_web(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write the page, the model, its tokenizers and a model card into an empty directory."""
    loaded = _copy_runtime(directory)
    write_onnx(run, trained, directory)
    about = read_json(directory / DESCRIPTION)
    stored = bytearray()
    for name in (DECODER, ENCODER):
        quantize(directory / name, stored)
        about["graphs"][name]["sha256"] = sha256(directory / name)
    (directory / _WEIGHTS).write_bytes(stored)
    about["weights"] = {_WEIGHTS: {"sha256": sha256(directory / _WEIGHTS)}}
    write_json(directory / DESCRIPTION, about)
    parts = [directory / name for name in (ENCODER, DECODER, _WEIGHTS, DESCRIPTION)]
    models = sorted((directory / run.tokenizer.name).glob("*.model"))
    for path in (*parts, *map(write_tokenizer, models)):
        loaded |= _entry(path, directory)
    shown = {path.name: path for page in PAGES for path in sorted(page.iterdir())}
    for name, path in shown.items():
        shutil.copyfile(path, directory / name)
    index = directory / "index.html"
    policy = read_small(_HERE / "template/policy.html").decode()
    write_text(index, read_small(index).decode().replace("<title>", f"{policy}<title>"))
    data = trained.config.data
    languages = [base_language(code) for code in (data.src_lang, data.tgt_lang)]
    content = {"page": ["./", *shown], "languages": languages, "files": loaded}
    write_json(directory / "web.json", content)
    use = read_small(_HERE / "template/use.md").decode()
    write_card(run, trained, directory, "transformer-cli", use)


def quantize(graph: Path, stored: bytearray) -> None:
    """Move the matrices of an ONNX graph, as int8, to ``stored``, unless it has the same already.

    ONNX Runtime restores them as float32 when it loads the graph. As it then computes in float32,
    its results are nearly the same on every machine and in every browser.
    """
    from onnx import TensorProto, external_data_helper, helper, load, numpy_helper

    model = load(graph)
    factors = {each for node in model.graph.node if node.op_type == "MatMul" for each in node.input}
    for tensor in [each for each in model.graph.initializer if len(each.dims) == 2]:
        name, matrix = tensor.name, numpy_helper.to_array(tensor)
        # Each column of a factor has its own scale, and so has each row of an embedding.
        greatest = np.abs(matrix).max(axis=0 if name in factors else 1, keepdims=True)
        scale = np.maximum(greatest, 1e-30) / 127
        rounded = np.rint(matrix / scale).astype(np.int8)
        data = rounded.tobytes()
        if (offset := stored.find(data)) < 0:
            offset = len(stored)
            stored += data
        tensor.CopyFrom(numpy_helper.from_array(rounded, f"{name}_int8"))
        external_data_helper.set_external_data(tensor, _WEIGHTS, offset, len(data))
        tensor.ClearField("raw_data")
        model.graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
        cast = helper.make_node("Cast", [tensor.name], [f"{name}_float"], to=TensorProto.FLOAT)
        scaled = helper.make_node("Mul", [f"{name}_float", f"{name}_scale"], [name])
        for node in (scaled, cast):
            model.graph.node.insert(0, node)
    graph.write_bytes(model.SerializeToString())


def _copy_runtime(directory: Path) -> dict[str, Any]:
    """Return the entries of ONNX Runtime's files; copy those that npm has installed."""
    entries: dict[str, Any] = read_json(_HERE / "runtime.json")
    for name, entry in list(entries.items()):
        entry["url"] = f"https://cdn.jsdelivr.net/npm/{_RUNTIME}/dist/{name}"
        if (_INSTALLED / name).is_file():
            copy = Path(shutil.copy(_INSTALLED / name, directory))
            digest = b64encode(sha384(read_small(copy)).digest()).decode()
            if entry["integrity"] != f"sha384-{digest}":
                raise UsageError(f"{_INSTALLED / name}: another version; npm install {_RUNTIME}")
            entries |= _entry(copy, directory)
    return entries


def _entry(path: Path, directory: Path) -> dict[str, Any]:
    """Return the entry of a file; its address has its version, so that caches never mix them."""
    name, digest = path.relative_to(directory).as_posix(), sha256(path)
    integrity = f"sha256-{b64encode(bytes.fromhex(digest)).decode()}"
    url = f"{name}?{digest[:16]}"
    return {name: {"url": url, "size": path.stat().st_size, "integrity": integrity}}


def write_tokenizer(path: Path) -> Path:
    """Write what the page needs of a SentencePiece model; return the file."""
    protocol = import_module("sentencepiece.sentencepiece_model_pb2")  # without types
    model = protocol.ModelProto.FromString(read_small(path))
    content = {
        "type": model.trainer_spec.model_type,
        "pieces": [[each.piece, each.score, each.type] for each in model.pieces],
        "replacements": b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
    }
    write_text(path.with_suffix(".json"), json.dumps(content, ensure_ascii=False))
    return path.with_suffix(".json")

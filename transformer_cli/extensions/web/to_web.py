"""Exports a trained model as a web page, in which the browser translates."""

import json
import shutil
from base64 import b64encode
from hashlib import sha384
from importlib.resources import files
from pathlib import Path
from typing import Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import sha256
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.extensions.exchange.card import write_card
from transformer_cli.extensions.exchange.formats import check_tokenizers, write_json
from transformer_cli.extensions.exchange.to_onnx import DECODER, DESCRIPTION, ENCODER, write_onnx
from transformer_cli.extensions.web.quantizing import quantize
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizers

WEIGHTS, LIST = "weights.bin", "web.json"
PAGES = [Path(str(files(f"transformer_cli.extensions.{one}"))) / "page" for one in ("serve", "web")]
RUNTIME = "onnxruntime-web@1.30.0"
# The bytes and the SHA-384 of its files.
_RUNTIME_FILES = """\
50126 SfFfy/pvthiOsgaw3KX0bV5TfQ6Iq+oY9KutMe4SxIuHH4cl+DCSD4rTsYOoG1tJ ort.wasm.min.mjs
24381 XcXA/MtAf0WpB8e023xQH9CM7RIjiugakT7x99DIwpFf7k56BIFFcAPerIF7FDad ort-wasm-simd-threaded.mjs
14239897 vjBJ1z7qrhkTyYsNqKeF6c7N+nOJSU94czEo+tvZcu8G75JparGq9kB+kTnEUNVM ort-wasm-simd-threaded.wasm
"""
_INSTALLED = Path("node_modules/onnxruntime-web/dist")
_CDN = f"https://cdn.jsdelivr.net/npm/{RUNTIME}/dist/"
_CHARSET = '<meta charset="utf-8">\n'
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' "
    "data:; connect-src 'self' https://cdn.jsdelivr.net; worker-src 'self'; manifest-src 'self'"
)
_USE = """\
Any web server can offer this directory; it needs no program. To try it on your machine:

    python -m http.server -d {name}

Then open http://localhost:8000. The browser translates, so the text stays on the user's machine.
"""


def check_web(config: Config, tokenizers: Tokenizers) -> None:
    """Raise UsageError if the page does not support the tokenizers."""
    is_supported = config.tokenizer.kind == "sentencepiece"
    check_tokenizers("web", "the page", is_supported, config, tokenizers)


def write_web(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write the page, the model, its tokenizers and a model card into an empty directory."""
    loaded = _copy_runtime(directory)
    write_onnx(run, trained, directory)
    quantize([directory / DECODER, directory / ENCODER], directory / WEIGHTS)
    about = json.loads((directory / DESCRIPTION).read_text(encoding="utf-8"))
    about["weights"] = {WEIGHTS: {}}
    for name, facts in (about["graphs"] | about["weights"]).items():
        facts["sha256"] = sha256(directory / name)
    write_json(directory / DESCRIPTION, about)
    models = sorted((directory / run.tokenizer.name).glob("*.model"))
    parts = [directory / name for name in (ENCODER, DECODER, WEIGHTS, DESCRIPTION)]
    for path in [*parts, *map(_write_tokenizer, models)]:
        loaded |= _entry(path, directory)
    for page in PAGES:  # the second has another backend.js
        shutil.copytree(page, directory, dirs_exist_ok=True)
    html = (directory / "index.html").read_text(encoding="utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    write_text(directory / "index.html", html.replace(_CHARSET, _CHARSET + policy))
    shown = sorted({path.name for page in PAGES for path in page.iterdir()})
    write_json(directory / LIST, {"page": ["./", LIST, *shown], "files": loaded})
    write_card(run, trained, directory, "transformer-cli", _USE)


def _copy_runtime(directory: Path) -> dict[str, Any]:
    """Return the entries of ONNX Runtime; copy its files if npm has installed them."""
    entries: dict[str, Any] = {}
    for size, digest, name in map(str.split, _RUNTIME_FILES.splitlines()):
        integrity = f"sha384-{digest}"
        entries[name] = {"url": _CDN + name, "size": int(size), "integrity": integrity}
        if _INSTALLED.is_dir():
            copy = Path(shutil.copy(_INSTALLED / name, directory))
            if b64encode(sha384(copy.read_bytes()).digest()).decode() != digest:
                raise UsageError(f"{_INSTALLED}: {name} differs; npm install {RUNTIME}")
            entries |= _entry(copy, directory)
    return entries


def _entry(path: Path, directory: Path) -> dict[str, Any]:
    """Return the entry of a file; its address has its version, so that caches never mix them."""
    name = path.relative_to(directory).as_posix()
    return {name: {"url": f"{name}?{sha256(path)[:16]}", "size": path.stat().st_size}}


def _write_tokenizer(path: Path) -> Path:
    """Write what the page needs of a SentencePiece model; return the file."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    model = ModelProto.FromString(path.read_bytes())
    replacements = b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    content = {
        "type": model.trainer_spec.model_type,
        "pieces": [[each.piece, each.score, each.type] for each in model.pieces],
        "replacements": replacements,
    }
    write_text(path.with_suffix(".json"), json.dumps(content, ensure_ascii=False))
    return path.with_suffix(".json")

"""What an export has, and which models are refused."""

import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from cli.process import assert_refused, run

from extensions.web.exporting import DIST, export, has_runtime
from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import sha256
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig, WordsConfig
from transformer_cli.extensions import serve
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers
from transformer_cli.extensions.web.to_web import check_web
from transformer_cli.model.transformer import weights_of
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model

GRAPHS = ("encoder.onnx", "decoder_step.onnx")
CDN = "https://cdn.jsdelivr.net/npm/onnxruntime-web@"


def listed(exported: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((exported / "web.json").read_text())
    return content


def test_everything_that_the_page_loads_is_listed(exported: Path) -> None:
    lists = listed(exported)
    for name, file in lists["files"].items():
        if file["url"].startswith(CDN):
            assert file["integrity"].startswith("sha384-")
            assert not (exported / name).exists()
        else:
            digest = sha256(exported / name)
            assert file == {
                "url": f"{name}?{digest[:16]}",
                "size": (exported / name).stat().st_size,
                "integrity": f"sha256-{b64encode(bytes.fromhex(digest)).decode()}",
            }
    assert lists["languages"] == ["de", "en"]
    shown, page = set(lists["page"]), Path(serve.__path__[0]) / "page"
    assert {"./", "worker.js", "translating.js", "service-worker.js"} < shown
    assert {path.name for path in page.iterdir()} < shown
    assert all((exported / name).exists() for name in shown)
    assert (exported / "backend.js").read_text() != (page / "backend.js").read_text()
    html = (exported / "index.html").read_text()
    assert html.index("default-src 'none'") < html.index("<title>") < html.index("page.js")
    card = (exported / "README.md").read_text()
    assert "    python -m http.server\n" in card


def test_weights_are_stored_once_as_int8(trained: Path, exported: Path) -> None:
    model = load_trained_model(RunDirectory(trained), "best").model
    matrices = sum(each.numel() for each in weights_of(model).values() if each.ndim == 2)
    positions = 2058 * 32  # the encoder has the first of them, too
    assert (exported / "weights.bin").stat().st_size == matrices + positions
    assert max((exported / name).stat().st_size for name in GRAPHS) < 200_000
    about = json.loads((exported / "onnx.json").read_text())
    for name, facts in (about["graphs"] | about["weights"]).items():
        assert facts["sha256"] == sha256(exported / name)


def test_logits_are_nearly_those_of_the_model(trained: Path, exported: Path) -> None:
    encoder, decoder = (onnxruntime.InferenceSession(exported / name) for name in GRAPHS)
    model = load_trained_model(RunDirectory(trained), "best").model
    src = np.random.default_rng(1).integers(4, model.tgt_size, (1, 9))
    src[0, -1] = 2
    memory = encoder.run(None, {"src": src})
    past = [each[:, :, :0] for each in memory[1:]]
    names = [each.name for each in decoder.get_inputs()]
    inputs = dict(zip(names, [np.array([[1]]), *memory, *past], strict=True))
    found, *_ = decoder.run(None, inputs)
    with torch.inference_mode():
        expected = np.asarray(model(torch.from_numpy(src), torch.tensor([[1]])))[0]
    assert np.abs(found - expected).max() < 0.05 * np.ptp(expected)


def test_other_tokenizers_are_refused(trained: Path) -> None:
    tokenizers = load_trained_model(RunDirectory(trained), "best").tokenizers
    config = Config(data=ToyData(kind="toy"), tokenizer=WordsConfig(kind="words"))
    with pytest.raises(
        UsageError, match=r"--format web: tokenizer\.kind: words: the page supports"
    ):
        check_web(config, tokenizers)
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=SentencePieceConfig(kind="sentencepiece", lowercase=True),
    )
    with pytest.raises(UsageError, match=r"--format web: tokenizer\.lowercase: true: the page"):
        check_web(config, tokenizers)
    with pytest.raises(UsageError, match=r"tokenizer\.protect: "):
        check_web(config, ReservedTokenizers.of(tokenizers, ["printf"], []))


def test_another_version_of_the_runtime_is_refused(trained: Path, tmp_path: Path) -> None:
    dist = tmp_path / "node_modules" / "onnxruntime-web" / "dist"
    dist.mkdir(parents=True)
    (dist / "ort-wasm-simd-threaded.mjs").write_text("another")
    command = ("export", trained, tmp_path / "new", "--format", "web")
    finished = run(*command, cwd=tmp_path)
    file = "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.mjs"
    assert_refused(finished, 2, f"{file}: another version", "npm install onnxruntime-web@1.30.0")
    assert not (tmp_path / "new").exists()


@pytest.mark.long
@pytest.mark.runtime
def test_the_installed_runtime_is_copied(trained: Path, exported: Path, tmp_path: Path) -> None:
    assert has_runtime()
    page = export(trained, tmp_path, with_runtime=True)
    pinned = listed(exported)["files"]
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        assert (page / name).read_bytes() == (DIST / name).read_bytes()
        digest = hashlib.sha384((DIST / name).read_bytes()).digest()
        assert pinned[name]["integrity"] == f"sha384-{b64encode(digest).decode()}"
        assert pinned[name]["size"] == (page / name).stat().st_size
        assert pinned[name]["url"].startswith(CDN)

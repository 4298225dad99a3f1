"""Exports models as web pages, and runs the page's modules in Node."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import children
from cli.process import run

ROOT = Path(__file__).parents[3]
MODULES = ROOT / "node_modules"
DIST = MODULES / "onnxruntime-web" / "dist"
PATIENCE = 300.0
TOY = ROOT / "data" / "toy"
CONFIG = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: val.de, tgt: val.en}
tokenizer: {kind: sentencepiece, model_type: bpe, vocab_size: 500}
model: {d_model: 32, num_heads: 2, d_ff: 64, num_encoder_layers: 1, num_decoder_layers: 2}
training:
  max_steps: 40
  batch_tokens: 1500
  validate_every: 40
  save_every: 40
  schedule: {kind: constant, peak: 1e-2, warmup: 10}
"""


def write_small(directory: Path) -> Path:
    """Write a few captions and a config to train on them; return the config."""
    for split, count in (("train", 400), ("val", 10)):
        for side in ("de", "en"):
            lines = (TOY / f"{split}.{side}").read_text(encoding="utf-8").splitlines()[:count]
            (directory / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (directory / "small.yaml").write_text(CONFIG)
    return directory / "small.yaml"


def has_runtime() -> bool:
    """Return whether Node and ONNX Runtime's package for the web are installed."""
    return shutil.which("node") is not None and DIST.is_dir()


def export(trained: Path, work: Path, with_runtime: bool = False) -> Path:
    """Export a run in the directory ``work``, which has npm's packages if ``with_runtime``."""
    if with_runtime:
        (work / "node_modules").symlink_to(MODULES)
    finished = run("export", trained, work / "page", "--format", "web", cwd=work)
    assert (finished.code, finished.err) == (0, ""), finished.err
    return work / "page"


def in_node(work: Path, **request: Any) -> Any:
    """Return what the page's modules answer in Node; see in_node.mjs."""
    page = ROOT / "transformer_cli" / "extensions" / "web" / "page"
    shutil.copy(page / "translating.js", work / "translating.mjs")
    shutil.copy(Path(__file__).parent / "in_node.mjs", work)
    request |= {"dist": str(DIST)}
    pipe = subprocess.PIPE
    command = ["node", str(work / "in_node.mjs")]
    process = children.start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = process.communicate(json.dumps(request).encode(), timeout=PATIENCE)
    assert process.returncode == 0, err.decode()[-2000:]
    return json.loads(out)

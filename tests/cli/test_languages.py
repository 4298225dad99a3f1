"""A language without spaces between words, in the output of commands."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.process import Finished, run
from transformer_cli.base import registry

VERBS = {"open": "打開", "save": "儲存", "close": "關閉"}
NOUNS = {"file": "檔案", "image": "圖片", "page": "頁"}
CHINESE = """\
data:
  kind: files
  src_lang: en
  tgt_lang: zh-TW
  train: {src: train.en, tgt: train.zh}
  val: {src: val.en, tgt: val.zh}
  test: {test: {src: val.en, tgt: val.zh}}
tokenizer: {kind: sentencepiece, vocab_size: 300, joint: true}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  max_steps: 20
  batch_tokens: 200
  validate_every: 10
  schedule: {kind: constant, peak: 1e-2, warmup: 5}
"""


@dataclass(frozen=True)
class Chinese:
    """A training on Chinese text."""

    path: Path
    finished: Finished


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Chinese:
    directory = tmp_path_factory.mktemp("chinese")
    pairs = [(verb, noun, n) for n in range(1, 20) for verb in VERBS for noun in NOUNS]
    for split, chosen in (("train", pairs[9:]), ("val", pairs[:9])):
        src = "".join(f"{verb} {noun} {n}\n" for verb, noun, n in chosen)
        tgt = "".join(f"{VERBS[verb]}第{n}個{NOUNS[noun]}\n" for verb, noun, n in chosen)
        (directory / f"{split}.en").write_text(src)
        (directory / f"{split}.zh").write_text(tgt)
    (directory / "new.yaml").write_text(CHINESE)
    insists = ["--allow-suspect-data"] * ("suspect" in registry.entries("train options"))
    finished = run("train", "new.yaml", *insists, cwd=directory)
    assert finished.code == 0, finished.err
    return Chinese(directory, finished)


def test_training_chooses_by_chrf(chinese: Chinese) -> None:
    lines = (chinese.path / "runs/new/metrics.jsonl").read_text().splitlines()
    found = [each for each in map(json.loads, lines) if each["kind"] == "validation"]
    assert [(each["tokenize"], each["select"]) for each in found] == [("zh", "chrf")] * 2
    assert not any("bleu_lc" in each for each in found)
    best = max(found, key=lambda each: (each["chrf"], -each["loss"]))
    assert f"chrF {best['chrf']:.2f} (best)" in chinese.finished.err
    assert f"best validation chrF {best['chrf']:.2f} at step" in chinese.finished.out
    assert "lowercased" not in chinese.finished.err

"""The lines on torchtext in docs/data.md, in torchtext's environment: make test-torchtext."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.data.kinds import load_split
from transformer_cli.text.protocol import SPECIALS
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers
from transformer_cli.text.words import Vocabulary

ROOT = Path(__file__).parents[2]
SHOWN_PATH = "runs/toy/tokenizer/src.vocab.txt"
# What comes after the snippet: an id for each line of stdin, which is JSON.
ASK = """
import json, sys
ids = [src[token] for token in json.load(sys.stdin)]
json.dump({"ids": ids, "size": len(src), "specials": src.lookup_tokens([0, 1, 2, 3])}, sys.stdout)
"""

pytestmark = pytest.mark.skipif(
    "TORCHTEXT_PYTHON" not in os.environ, reason="opt-in: make test-torchtext"
)


@pytest.mark.parametrize("kind", ["toy", pytest.param("multi30k", marks=pytest.mark.multi30k)])
def test_torchtext_reads_the_same_ids(kind: str, tmp_path: Path) -> None:
    config = Config.model_validate({"data": {"kind": kind}, "tokenizer": {"kind": "words"}})
    text = load_split(config.data, "train")
    tokenizer = WordsConfig(kind="words", min_freq=1)
    learn_tokenizers(
        tokenizer,
        TrainingText("de", "en", text.src, text.tgt, "sum"),
        tmp_path,
    )
    for side in ("src", "tgt"):
        path = tmp_path / f"{side}.vocab.txt"
        vocabulary = Vocabulary.parse(path.read_bytes(), path)
        tokens = [*vocabulary.tokens[len(SPECIALS) :], "a word that nobody knows", ""]
        found = of_torchtext(path, tokens)
        assert found["size"] == len(vocabulary)
        assert found["specials"] == list(SPECIALS)
        assert found["ids"] == [vocabulary.id(token) for token in tokens]
        assert found["ids"][-2:] == [0, 0]


def of_torchtext(path: Path, tokens: list[str]) -> dict[str, Any]:
    document = (ROOT / "docs" / "data.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?torchtext.*?)```", document, flags=re.DOTALL)
    assert SHOWN_PATH in snippet
    done = subprocess.run(
        [os.environ["TORCHTEXT_PYTHON"], "-I", "-c", snippet.replace(SHOWN_PATH, str(path)) + ASK],
        input=json.dumps(tokens),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer

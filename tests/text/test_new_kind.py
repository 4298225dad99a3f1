"""A tokenizer kind that somebody adds: an extension with its settings and its tokenizer."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from copied_text import DATA

import transformer_cli

SETTINGS = '''
from typing import Literal

from transformer_cli.config.sections import setting
from transformer_cli.config.tokenizer_schema import TokenizerSection


class CharactersConfig(TokenizerSection):
    """Characters, one vocabulary for both sides."""

    kind: Literal["characters"]
    lowercase: bool = setting(False, "lowercase text on both sides, output too")

    @property
    def one_vocabulary(self) -> bool:
        """Return True."""
        return True
'''
MODULE = """
from typing import Literal

from transformer_cli.text.tokenizer import Side
from transformer_cli.text.protocol import Tokenizer
from transformer_cli.text.tokenizer import TokenizerManifest
from transformer_cli.text.protocol import SPECIALS, UNK_ID


class CharactersTokenizer(Tokenizer):
    def __init__(self, characters):
        self.tokens = [*SPECIALS, *characters]

    @property
    def size(self):
        return len(self.tokens)

    def encode(self, line):
        return [self.tokens.index(c) if c in self.tokens else UNK_ID for c in line]

    def decode(self, ids):
        return "".join(self.tokens[number] for number in ids if number >= len(SPECIALS))

    def token(self, number):
        return self.tokens[number].replace(" ", "▁")


class Manifest(TokenizerManifest):
    kind: Literal["characters"] = "characters"
    suffix = "characters"

    def open(self, data: bytes, path, side: Side):
        return CharactersTokenizer(data.decode())

    @classmethod
    def learn(cls, config, text, directory):
        models = (
            (side, "".join(sorted(set("".join(lines)))).encode())
            for side, lines, _ in text.sides(joint=True)
        )
        return cls.write(models, directory, config.lowercase, text.sha256)
"""
EXTENSION = """
api = 1
provides = {
    "tokenizer": {"characters": {"settings": "settings:CharactersConfig", "load": "kind:Manifest"}}
}
"""
EXPERIMENT = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: characters}
model: {d_model: 16, num_heads: 2, d_ff: 32, tying: all}
training: {batch_tokens: 400, max_steps: 3}
"""
)
# One process imports torch once.
COMMANDS = """
from transformer_cli.cli import app

for arguments in (["vocab", "new.yaml"], ["train", "new.yaml"], ["translate", "runs/new"]):
    if arguments[0] == "translate":
        print("--", flush=True)
    app(arguments, standalone_mode=False)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package with the new kind."""
    (source,) = transformer_cli.__path__
    package = tmp_path / "transformer_cli"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    extension = package / "extensions" / "characters"
    extension.mkdir()
    (extension / "__init__.py").touch()
    (extension / "manifest.py").write_text(EXTENSION)
    (extension / "kind.py").write_text(MODULE)
    (extension / "settings.py").write_text(SETTINGS)
    (tmp_path / "new.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.mark.long
def test_a_kind_is_added_by_an_extension(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "CUDA_VISIBLE_DEVICES": ""},
        input="1 2 3 4\n\n5 6\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, translated = done.stdout.split("--\n")
    # Six symbols, a space and four special tokens.
    assert re.search(r"^vocabulary +11 +11$", found, re.MULTILINE)
    assert translated.count("\n") == 3
    assert set(translated) <= set("123456 \n")

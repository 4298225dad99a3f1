"""``export --format argos``: what is in the package, and what Argos Translate makes of it."""

import json
import os
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ctranslate2
import pytest
import sentencepiece
from cli.process import assert_refused, run

from transformer_cli.base.errors import UsageError
from transformer_cli.config.schema import Config
from transformer_cli.extensions.exchange.to_ctranslate2 import check_argos
from transformer_cli.extensions.python_api.translator import Translator

LINES = [" ".join(f"{number * 7919 % 6**4:04d}"[:4]) for number in range(200)]
NAME = "translate-de_en-1_0"
TINY = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: lines.de, tgt: lines.en}
  val: {src: lines.de, tgt: lines.en}
tokenizer: {kind: sentencepiece, vocab_size: 30, byte_fallback: false}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  max_steps: 60
  batch_tokens: 200
  validate_every: 60
  schedule: {kind: constant, peak: 1e-2, warmup: 10}
"""
# Sentences are split by models that Argos Translate downloads; ours are sentences.
ASK = """
import json, sys
from argostranslate import package, translate

class Whole:
    def split_sentences(self, text):
        return [text]

package.install_from_path(sys.argv[1])
translation = translate.get_translation_from_codes("de", "en")
translation.underlying.sentencizer = Whole()
json.dump([translation.translate(line) for line in json.load(sys.stdin)], sys.stdout)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("argos")
    (directory / "tiny.yaml").write_text(TINY)
    text = "".join(f"{line}\n" for line in LINES)
    (directory / "lines.de").write_text(text)
    (directory / "lines.en").write_text(text.translate(str.maketrans("0123456789", "abcdefghij")))
    finished = run("train", directory / "tiny.yaml", "--allow-suspect-data", cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / "tiny"


def export(trained: Path, path: Path, *options: str) -> Path:
    finished = run("export", trained, path, "--format", "argos", *options)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith(f"{path}: step-")
    return path


def translated(trained: Path, lines: list[str]) -> list[str]:
    # Not the command, which searches doubtful lines again.
    return Translator.load(trained).translate(lines, beam_size=1)


@pytest.mark.long
def test_ctranslate2_and_sentencepiece_read_the_package(trained: Path, tmp_path: Path) -> None:
    path = export(trained, tmp_path / "a.argosmodel", "--quantization", "float32")
    again = export(trained, tmp_path / "b.argosmodel", "--quantization", "float32")
    assert path.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(path) as package:
        assert {name.split("/")[0] for name in package.namelist()} == {NAME}
        package.extractall(tmp_path)
    directory = tmp_path / NAME
    assert sorted(each.name for each in directory.iterdir()) == [
        *("README.md", "metadata.json", "model", "sentencepiece.model")
    ]
    assert json.loads((directory / "metadata.json").read_bytes()) == {
        "package_version": "1.0",
        "argos_version": "1.11",
        "from_code": "de",
        "from_name": "German",
        "to_code": "en",
        "to_name": "English",
    }
    assert 'translate.translate("...", "de", "en")' in (directory / "README.md").read_text()
    # As Argos Translate does: no token is banned.
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(directory / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(directory / "model"), compute_type="float32")
    lines = LINES[:50]
    found = translator.translate_batch(pieces.encode(lines, out_type=str), beam_size=1)
    theirs = [pieces.decode_pieces(each.hypotheses[0]) for each in found]
    assert len(set(theirs)) >= 5, "the case is too easy"
    assert theirs == translated(trained, lines)
    # Words that occur nowhere, and all hypotheses: what is never written is in none.
    many = translator.translate_batch([["?"], ["▁", "€"]], beam_size=8, num_hypotheses=8)
    written = {token for each in many for tokens in each.hypotheses for token in tokens}
    assert written.isdisjoint({"<unk>", "<BOS>", "<PAD>"})


def test_a_package_has_one_plain_sentencepiece_model() -> None:
    def refusal(reserved: int = 0, is_joint: bool = True, **tokenizer: Any) -> str:
        config = Config.model_validate({"data": {"kind": "toy"}, "tokenizer": tokenizer})
        model = None if tokenizer["kind"] == "words" else b""
        src = SimpleNamespace(size=300 + reserved, text_size=300, sentencepiece_model=model)
        tgt = src if is_joint else SimpleNamespace(size=300, text_size=300)
        tokenizers: Any = SimpleNamespace(src=src, tgt=tgt)
        with pytest.raises(UsageError) as caught:
            check_argos(config, tokenizers)
        return str(caught.value).removeprefix("--format argos: a package cannot have this model: ")

    pieces: dict[str, Any] = {"kind": "sentencepiece", "vocab_size": 300}
    joint = "train with tokenizer {kind: sentencepiece, joint: true}"
    assert refusal(kind="words").endswith(f"no other tokenizer, as 'words'; {joint}")
    assert refusal(is_joint=False, joint=False, **pieces).endswith(f"this model has two; {joint}")
    two_models = refusal(is_joint=False, kind="marian")
    assert two_models.endswith("this model has two; export it for ctranslate2 or transformers")
    assert refusal(17, **pieces).startswith(
        "its SentencePiece knows no reserved tokens; train with"
    )
    assert refusal(lowercase=True, **pieces).endswith("train with tokenizer.lowercase false")


@pytest.mark.long
def test_a_package_is_a_new_file(trained: Path, tmp_path: Path) -> None:
    there = tmp_path / "a.argosmodel"
    there.touch()
    for path, message in (
        (there, f"{there}: is there already; give a new name"),
        (tmp_path / "b", f"{tmp_path / 'b'}: is written as one file; give a name that ends with"),
        (tmp_path / "no" / "c.argosmodel", "there is no directory"),
    ):
        assert_refused(run("export", trained, path, "--format", "argos"), 2, message)
    assert [*tmp_path.iterdir()] == [there]


@pytest.mark.skipif("ARGOS_PYTHON" not in os.environ, reason="opt-in: make test-argos")
def test_argos_translate_installs_it_and_gives_our_text(trained: Path, tmp_path: Path) -> None:
    path = export(trained, tmp_path / "a.argosmodel", "--quantization", "float32")
    lines = LINES
    settings = {"ARGOS_BEAM_SIZE": "1", "ARGOS_COMPUTE_TYPE": "float32", "HOME": str(tmp_path)}
    done = subprocess.run(
        [os.environ["ARGOS_PYTHON"], "-I", "-c", ASK, path],
        input=json.dumps(lines),
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == translated(trained, lines)

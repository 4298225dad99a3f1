"""The page's tokenizer encodes and decodes like SentencePiece."""

import json
import random
import shutil
from pathlib import Path

import pytest
import sentencepiece

from extensions.web.exporting import ROOT, in_node
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.extensions.web.to_web import write_tokenizer
from transformer_cli.text.sentencepiece import learn_model

TOY = ROOT / "data" / "toy"
LEARNED_FROM = (TOY / "train.de").read_text(encoding="utf-8").splitlines()[:400]
LINES = (TOY / "test.de").read_text(encoding="utf-8").splitlines()
ODD = [
    *("", " ", "  a  b ", "\u00a0x\u3000y\u200bz", "\ufeffBOM", "tab\tx\x00\x01\x1f\x7f", "a\r"),
    *("ﬁne ½ ⁶ ①", "e\u0301 é a\u0323\u0307", "a\u0300\u0301\u0302b", " \u0301x", "\u1e9b\u0323"),
    *("▁▁x▁ ▁", "<unk> <BOS> <0x41> <EOS>", "\ufffd", "x" * 200, "~〜～", "\u202eabc"),
    *("日本語のテキスト。", "가각 ᄀ\u1161", "ａｂｃ　ＡＢＣ", "ｶﾞ ﾊﾟ", "ﷺ", "ا\u064bب", "क\u093c"),
    *("👍🏽👨‍👩‍👧", "𝔘𝔫𝔦𝔠 𝟘", "\U0001d15e", "Ω Å K ǅ ŉ ſ"),
]
_RANGES = ((1, 0x3100), (0xAC00, 0xAC40), (0xF900, 0xFFFE), (0x1F600, 0x1F632))
SIGNS = [chr(code) for start, end in _RANGES for code in range(start, end) if chr(code) != "\n"]
LONG = pytest.mark.long
FORMS = [
    ("bpe", "nfc", True),
    ("unigram", "nmt_nfkc", False),
    *(
        pytest.param(kind, normalization, has_bytes, marks=LONG)
        for kind in ("bpe", "unigram")
        for normalization in ("nfc", "nmt_nfkc", "nfkc", "identity")
        for has_bytes in (True, False)
    ),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node")
@pytest.mark.parametrize(("kind", "normalization", "has_bytes"), FORMS)
def test_tokens_are_those_of_sentencepiece(
    kind: str, normalization: str, has_bytes: bool, tmp_path: Path
) -> None:
    config = SentencePieceConfig.model_validate(
        {
            "kind": "sentencepiece",
            "model_type": kind,
            "normalization": normalization,
            "byte_fallback": has_bytes,
            "vocab_size": 220 + 256 * has_bytes,
        }
    )
    (tmp_path / "joint.model").write_bytes(learn_model(config, LEARNED_FROM, "text"))
    generator = random.Random(1)
    signs = [*SIGNS, *"abc  ▁ABC" * 200]
    drawn = ["".join(generator.choices(signs, k=generator.randint(1, 30))) for _ in range(1000)]
    lines = [*LINES, *ODD, *drawn]
    content = json.loads(write_tokenizer(tmp_path / "joint.model").read_text(encoding="utf-8"))
    found = in_node(tmp_path, tokenizer=content, lines=lines)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "joint.model"))
    for line, (ids, text) in zip(lines, found, strict=True):
        assert ids == pieces.encode(line), ascii(line)
        if 0 not in ids:  # the search never writes the unknown token
            assert text == pieces.decode(ids).replace("\n", " "), ascii(line)

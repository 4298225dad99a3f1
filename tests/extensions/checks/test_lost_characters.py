"""Characters of the training text that a tokenizer changes or loses."""

from pathlib import Path
from typing import Any

import pytest
from cli.process import run
from pydantic import TypeAdapter

from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers

GERMAN = [
    "Ein Hund läuft über die Straße.",
    "Ein Mann im T-Shirt sieht einen Hund.",
    "Zwei Männer laufen.",
] * 20


def test_vocab_warns_of_characters_that_do_not_survive(tmp_path: Path) -> None:
    # As in a Persian corpus: a joiner and superscripts.
    (tmp_path / "de").write_text("ein Haus\nein Hund\n" * 20, encoding="utf-8")
    (tmp_path / "fa").write_text("10⁶ m²\nنمی‌دانم\n" * 20, encoding="utf-8")
    (tmp_path / "fa.yaml").write_text(
        "data: {kind: files, src_lang: de, tgt_lang: fa, train: {src: de, tgt: fa}, "
        "val: {src: de, tgt: fa}}\ntokenizer: {kind: sentencepiece, vocab_size: 300}\n"
    )
    command = ("vocab", "fa.yaml", "--overwrite", "--allow-suspect-data")
    assert "warning: tokenizer" not in run(*command, cwd=tmp_path).err
    nfkc = ("--set", "tokenizer.normalization=nmt_nfkc")
    warned = run(*command, *nfkc, cwd=tmp_path)
    assert warned.code == 0
    assert (
        "warning: tokenizer: changes or loses characters of the training text: U+00B2 '²', "
        "U+200C ZERO WIDTH NON-JOINER, U+2076 '⁶'; set tokenizer.normalization to nfc to keep "
        "what NFKC changes\n"
    ) in warned.err


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        ({}, []),
        ({"normalization": "identity"}, []),
        ({"lowercase": True}, []),
        (
            {"normalization": "nmt_nfkc"},
            ["U+00BD '½'", "U+200C ZERO WIDTH NON-JOINER", "to nfc to keep"],
        ),
        ({"byte_fallback": False, "character_coverage": 0.98, "vocab_size": 60}, ["U+00BD '½'"]),
    ],
    ids=str,
)
def test_lost_characters_are_reported(
    settings: dict[str, Any], lost: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    config: TokenizerConfig = TypeAdapter(TokenizerConfig).validate_python(
        {"kind": "sentencepiece", "vocab_size": 400} | settings
    )
    persian = ["Straße ½", "نمی‌دانم"] * 2
    german = [*GERMAN, *["Ärger\u00a0e\u0301\tÇa"] * 2]
    text = TrainingText("de", "fa", german, persian, "a sum")
    warn = "transformer_cli.text.tokenizer.warn"
    monkeypatch.setattr(warn, lambda what, found: warnings.append(f"{what}: {found}"))
    learn_tokenizers(config, text, tmp_path)
    assert len(warnings) == bool(lost)
    assert all(each in warnings[0] for each in lost)

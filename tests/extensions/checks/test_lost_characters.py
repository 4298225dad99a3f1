"""Characters of the training text that a tokenizer changes or loses."""

from pathlib import Path

from cli.process import run


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

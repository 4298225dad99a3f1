"""Marian's tokenizers; tests/extensions/exchange compares transformers' own."""

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from transformer_cli.base.errors import ConfigError, TokenizerError
from transformer_cli.extensions.augmentation.bpe_dropout import Subwords
from transformer_cli.extensions.exchange.imported import MarianConfig
from transformer_cli.extensions.exchange.marian import MarianTokenizer, write_tokenizers
from transformer_cli.text.protocol import UNK_ID
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers, load_tokenizers
from transformer_cli.text.words import Vocabulary

GERMAN = ["Ein Hund läuft über die Straße.", "Zwei Hunde schlafen.", "Der große Bär ruft laut."]
ENGLISH = ["A dog runs across the street.", "Two dogs sleep.", "The big bear calls."]


def learn(lines: list[str], **options: Any) -> bytes:
    """A model like Marian's: its only special pieces are <unk>, <s> and </s>."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 10),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 60, "model_type": "unigram", **options},
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(n) for n in range(3, processor.get_piece_size())]


SRC, TGT = learn(GERMAN), learn(ENGLISH)
# As in OPUS-MT, pieces of both sides are mixed; one source piece is left out.
TABLE = Vocabulary([">>fra<<", *sorted({*pieces(SRC), *pieces(TGT)} - {"."})])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizers({"src": SRC, "tgt": TGT}, {"joint": TABLE}, "0" * 64, path)
    return path


def test_ids_are_those_of_the_table(directory: Path) -> None:
    tokenizers = load_tokenizers(directory)
    src = tokenizers.src
    ids = src.encode("Ein Bär")
    processor: Any = sentencepiece.SentencePieceProcessor(model_proto=SRC)
    assert [src.token(n) for n in ids] == processor.encode("Ein Bär", out_type=str)
    assert src.decode(ids) == "Ein Bär"
    assert src.size == tokenizers.tgt.size == len(TABLE)
    assert src.encode("Bär.")[-1] == UNK_ID
    assert src.encode("") == []


def test_a_language_code_is_one_token(directory: Path) -> None:
    src = load_tokenizers(directory).src
    plain = src.encode("Ein Hund")
    assert src.encode(">>fra<< Ein Hund") == [TABLE.id(">>fra<<"), *plain]
    assert src.encode(">>deu<<Ein Hund") == [UNK_ID, *plain]
    assert TABLE.id(">>fra<<") not in src.encode("Ein >>fra<< Hund")


def test_text_with_spaces_is_not_a_language_code(directory: Path) -> None:
    src = load_tokenizers(directory).src
    assert "Ein Hund" in src.decode(src.encode(">> Ein Hund << läuft"))


def test_a_character_of_the_other_side_has_its_id(directory: Path) -> None:
    tgt = load_tokenizers(directory).tgt
    assert "ß" in TABLE.tokens
    assert "ß" not in pieces(TGT)
    assert TABLE.id("ß") in tgt.encode("ß")


@pytest.mark.long
def test_merges_are_dropped_if_the_model_has_some(tmp_path: Path) -> None:
    model = learn(GERMAN, model_type="bpe", vocab_size=80)
    tokenizer = MarianTokenizer(model, Vocabulary([">>fra<<", *pieces(model)]), tmp_path)
    subwords = Subwords(tokenizer)
    sentences = [tokenizer.encode(f">>fra<< {line}") for line in GERMAN] * 20
    sampled = subwords.sample(sentences, 0.5, 1)
    assert sampled != sentences
    assert sampled == subwords.sample(sentences, 0.5, 1)
    assert [tokenizer.decode(ids) for ids in sampled] == [tokenizer.decode(s) for s in sentences]
    assert {ids[0] for ids in sampled} == {TABLE.id(">>fra<<")}


def test_it_is_not_learned(tmp_path: Path) -> None:
    config = MarianConfig(kind="marian")
    lines = ["a"]
    with pytest.raises(ConfigError, match="name that run with init"):
        learn_tokenizers(
            config,
            TrainingText("de", "en", lines, lines, "0" * 64),
            tmp_path,
        )


def test_a_changed_table_is_refused(directory: Path) -> None:
    path = directory / "joint.vocab.txt"
    content = path.read_bytes()
    path.write_bytes(content + b"x\n")
    try:
        with pytest.raises(TokenizerError, match=r"joint.vocab.txt: changed"):
            load_tokenizers(directory)
    finally:
        path.write_bytes(content)

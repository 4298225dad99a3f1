import io
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, strategies as st

from transformer_cli.base.errors import ConfigError, CorpusError, TokenizerError
from transformer_cli.base.files import sha256
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, StreamedLines
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers

NOUNS = ["dog", "man", "boy", "girl", "ball", "woman", "horse", "street", "Hund", "Straße", "Bär"]
VERBS = ["sees", "holds", "follows", "paints", "wants", "sieht", "hält", "läuft"]
LINES = [f"A {a} {verb} the {b}, isn't it?" for a in NOUNS for verb in VERBS for b in NOUNS]


def settings(**changes: Any) -> SentencePieceConfig:
    return SentencePieceConfig(**{"kind": "sentencepiece", "vocab_size": 304, **changes})


def learn(config: SentencePieceConfig, lines: Sequence[str] = LINES) -> SentencePieceTokenizer:
    model = learn_model(config, lines, "training text")
    return SentencePieceTokenizer(model, config.lowercase, Path("joint.model"))


BPE = learn(settings())
UNIGRAM = learn(settings(model_type="unigram"))
NO_BYTES = learn(settings(byte_fallback=False, vocab_size=60))
BOTH = [BPE, UNIGRAM]


def test_specials_are_the_first_pieces() -> None:
    model = learn_model(settings(), LINES, "training text")
    processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert tuple(processor.id_to_piece(list(range(4)))) == SPECIALS
    assert processor.unk_id() == UNK_ID
    assert (processor.bos_id(), processor.eos_id(), processor.pad_id()) == (BOS_ID, EOS_ID, PAD_ID)
    assert all(processor.is_control(number) for number in (BOS_ID, EOS_ID, PAD_ID))


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_learning_twice_gives_the_same_bytes(model_type: str) -> None:
    config = settings(model_type=model_type)
    assert learn_model(config, LINES, "text") == learn_model(config, list(LINES), "text")


@pytest.mark.parametrize("tokenizer", BOTH)
def test_size_is_the_one_asked_for(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.size == 304


@pytest.mark.parametrize("tokenizer", BOTH)
@given(
    words=st.lists(st.sampled_from([*NOUNS, *VERBS, "Ärger,", "don't", "T-Shirt", "„ja“", "5!"]))
)
def test_ordinary_sentences_come_back(tokenizer: SentencePieceTokenizer, words: list[str]) -> None:
    line = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(line)) == line


@pytest.mark.parametrize("tokenizer", [*BOTH, NO_BYTES])
@given(line=st.text(st.characters(exclude_characters="\n", codec="utf-8")))
def test_any_line_goes_through(tokenizer: SentencePieceTokenizer, line: str) -> None:
    ids = tokenizer.encode(line)
    assert all(0 <= number < tokenizer.size for number in ids)
    assert not {BOS_ID, EOS_ID, PAD_ID} & set(ids)
    assert "\n" not in tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", [*BOTH, NO_BYTES])
@given(ids=st.lists(st.integers(0, 303)))
def test_any_output_of_a_model_is_one_line(
    tokenizer: SentencePieceTokenizer, ids: list[int]
) -> None:
    assert "\n" not in tokenizer.decode([number % tokenizer.size for number in ids])


@pytest.mark.parametrize("line", ["a\tb", "a\x00b", "▁", "a ▁ b", "▁▁a", "", "   ", "日本 😀"])
@pytest.mark.parametrize("tokenizer", BOTH)
def test_awkward_lines(tokenizer: SentencePieceTokenizer, line: str) -> None:
    decoded = tokenizer.decode(tokenizer.encode(line))
    expected = line.replace("\t", " ").replace("▁", " ")
    assert "".join(decoded.split()) == "".join(expected.split())


@pytest.mark.parametrize("typed", [*SPECIALS, "<0x41>", "</s>", "<s>"])
@pytest.mark.parametrize("tokenizer", BOTH)
def test_specials_typed_in_text_stay_text(tokenizer: SentencePieceTokenizer, typed: str) -> None:
    for line in (typed, f"the {typed}{typed} dog"):
        ids = tokenizer.encode(line)
        assert not {UNK_ID, BOS_ID, EOS_ID, PAD_ID} & set(ids)
        assert tokenizer.decode(ids) == line


def test_specials_learned_from_stay_text() -> None:
    lines = [f"{line} <PAD> <EOS>" for line in LINES]
    tokenizer = learn(settings(), lines)
    ids = tokenizer.encode("dog <PAD> <EOS>")
    assert min(ids) > PAD_ID
    assert tokenizer.decode(ids) == "dog <PAD> <EOS>"


# --- normalization --------------------------------------------------------------------------------

# Persian and Sinhala need U+200C and U+200D, Khmer U+200B, Hebrew U+200F, Chinese its own comma.
WRITTEN = ["10⁶ m² ½ ™ № …", "نمی‌دانم", "ශ්‍රී", "ខ្ញុំ​ទៅ", "א\u200f!", "你好，世界！", "ｶﾞ Ａ ﬁ ﬂ"]


@pytest.mark.parametrize("normalization", ["nfc", "identity"])
def test_what_scripts_need_comes_back(normalization: str) -> None:
    tokenizer = learn(settings(normalization=normalization, vocab_size=350), WRITTEN)
    assert [tokenizer.decode(tokenizer.encode(line)) for line in WRITTEN] == WRITTEN


def test_nfc_spells_equal_text_alike() -> None:
    composed = [chr(code) for code in range(0xA1, 0x2000) if is_composed(chr(code))]
    assert len(composed) > 800
    for character in [*composed, "한", "각"]:
        spelled = unicodedata.normalize("NFD", f"x{character}x")
        assert BPE.encode(spelled) == BPE.encode(unicodedata.normalize("NFC", spelled))
    # Vietnamese, with one of two marks composed, in either order.
    alike = {
        str(BPE.encode(e)) for e in ("ệ", "ê\u0323", "ẹ\u0302", "e\u0302\u0323", "e\u0323\u0302")
    }
    assert len(alike) == 1


def is_composed(character: str) -> bool:
    return unicodedata.ucd_3_2_0.normalize("NFD", character) != character


def test_nfc_makes_spaces_of_white_space_and_drops_control_characters() -> None:
    odd = "\ufeffA\u00a0dog\u2009\tsees\u3000the\u2028\x07ball\x85"
    assert BPE.decode(BPE.encode(odd)) == "A dog sees the ball"


def test_german_and_english_are_learned_alike_with_nmt_nfkc() -> None:
    both = [learn(settings(normalization=name)) for name in ("nfc", "nmt_nfkc")]
    ours, theirs = ([each.token(number) for number in range(304)] for each in both)
    assert ours == theirs
    assert both[0].encode(LINES[5]) == both[1].encode(LINES[5])
    # That is what it has always been, and what users may choose.
    assert both[1].decode(both[1].encode("10⁶ ½ ™ نمی‌دانم")) == "106 1⁄2 TM نمی دانم"


def test_marks_of_sentences_are_not_written() -> None:
    ids = BPE.encode("A dog sees the ball")
    assert BPE.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "A dog sees the ball"
    assert BPE.decode([BOS_ID, EOS_ID, PAD_ID]) == ""


def test_unknown_characters_are_written_as_such_without_bytes() -> None:
    ids = NO_BYTES.encode("the 日 dog")
    assert UNK_ID in ids
    assert NO_BYTES.decode(ids) == "the <unk> dog"


def test_lowercase_is_for_encoding_and_so_for_decoding() -> None:
    model = learn_model(settings(), [line.lower() for line in LINES], "training text")
    tokenizer = SentencePieceTokenizer(model, lowercase=True, source=Path("joint.model"))
    assert tokenizer.encode("A DOG sees") == tokenizer.encode("a dog sees")
    assert tokenizer.decode(tokenizer.encode("A Bär SIEHT")) == "a bär sieht"


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_vocabulary_too_big_says_what_is_possible(model_type: str) -> None:
    with pytest.raises(ConfigError) as caught:
        learn_model(settings(model_type=model_type, vocab_size=90000), LINES, "source text")
    message = str(caught.value)
    assert message.startswith("tokenizer.vocab_size: ")
    assert "90000" in message
    assert "source text" in message
    assert "\n" not in message
    possible = int(message.rsplit("at most ", 1)[1])
    assert learn(settings(model_type=model_type, vocab_size=possible)).size == possible


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_vocabulary_too_small_says_what_is_possible(model_type: str) -> None:
    with pytest.raises(ConfigError) as caught:
        learn_model(settings(model_type=model_type, vocab_size=100), LINES, "source text")
    message = str(caught.value)
    assert message.startswith("tokenizer.vocab_size: 100 ")
    assert "\n" not in message
    possible = int(message.split("at least ", 1)[1].split(",")[0])
    assert learn(settings(model_type=model_type, vocab_size=possible)).size == possible


def test_text_without_characters_is_an_error() -> None:
    with pytest.raises(ConfigError, match="target text") as caught:
        learn_model(settings(), ["   ", ""], "target text")
    assert "\n" not in str(caught.value)


def fail(failure: BaseException) -> Iterator[str]:
    yield from LINES[:5]
    raise failure


@pytest.mark.parametrize("failure", [CorpusError("text.de:6: not UTF-8"), KeyboardInterrupt()])
def test_what_ends_the_reading_is_what_is_raised(failure: BaseException) -> None:
    lines = StreamedLines(lambda: fail(failure), len(LINES))
    with pytest.raises(type(failure)) as caught:
        learn_model(settings(), lines, "training text")
    assert caught.value is failure


@pytest.mark.parametrize("joint", [False, True])
def test_of_very_many_lines_some_are_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joint: bool
) -> None:
    def sums(name: str, most: int) -> dict[str, str]:
        monkeypatch.setattr("transformer_cli.text.tokenizer.MOST_LINES", most)
        directory = tmp_path / name
        directory.mkdir()
        config = settings().model_copy(update={"joint": joint})
        learn_tokenizers(config, TrainingText("de", "de", LINES, LINES, "sum"), directory)
        return {path.name: sha256(path) for path in directory.glob("*.model")}

    enough = len(LINES) * (2 if joint else 1)
    everything = sums("all", 10**6)
    assert sums("enough", enough) == everything
    assert sums("half", enough // 2) == sums("again", enough // 2) != everything


def test_a_sample_is_even_and_of_its_size() -> None:
    lines = [str(number) for number in range(10_007)]
    text = TrainingText("de", "en", lines, lines[::-1], "sum")
    sampled = text.sample(1000)
    chosen = [int(line) for line in sampled.src]
    assert len(chosen) == len(sampled.tgt) == 1000
    assert {after - before for before, after in pairwise(chosen)} == {10, 11}
    assert list(sampled.tgt) == [lines[::-1][place] for place in chosen]
    assert text.sample(len(lines)) is text


@pytest.mark.long_cases
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)), b"\x00" * 50])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"joint\.model"):
        SentencePieceTokenizer(data, lowercase=False, source=Path("joint.model"))


@pytest.mark.long
def test_a_model_with_other_specials_is_refused() -> None:
    model = io.BytesIO()
    trainer: Any = sentencepiece.SentencePieceTrainer
    trainer.train(sentence_iterator=iter(LINES), model_writer=model, vocab_size=45, minloglevel=2)
    with pytest.raises(TokenizerError, match=r"joint\.model"):
        SentencePieceTokenizer(model.getvalue(), lowercase=False, source=Path("joint.model"))

"""Text of every kind: as many lines out as in, in bounded time and memory, no neighbour hurt."""

import unicodedata
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from cli import process
from cli.conftest import Training
from cli.process import Finished, assert_refused, run
from copied_text import DATA

from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.text.lines import decode_lines
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model
from transformer_cli.text.words import SpacyWords

SUBWORDS = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: sentencepiece, model_type: MODEL_TYPE, vocab_size: 270, byte_fallback: true}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training: {max_steps: 20, batch_tokens: 200, schedule: {kind: constant, peak: 1e-2}}
"""
)


@pytest.fixture(scope="session")
def subword_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("subwords")
    config = directory / "subwords.yaml"
    config.write_text(SUBWORDS.replace("MODEL_TYPE", "bpe"))
    finished = run("train", config, cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / "subwords"


@pytest.fixture(params=["words", "subwords"])
def any_run(request: pytest.FixtureRequest, training: Training, subword_run: Path) -> Path:
    return training.run if request.param == "words" else subword_run


def translate(run_directory: Path, text: bytes, *options: str) -> list[str]:
    """The lines that come out."""
    finished = run("translate", run_directory, "--max-length", "6", *options, stdin=text)
    assert finished.code == 0, finished.err
    # What a weak model doubts of odd lines differs from processor to processor.
    assert all("doubtful" in line for line in finished.err.splitlines()), finished.err
    return lines_of(finished)


def lines_of(finished: Finished) -> list[str]:
    *lines, rest = finished.out.split("\n")
    assert rest == ""
    return lines


def long(*cases: str) -> list[Any]:
    return [pytest.param(each, marks=pytest.mark.long) for each in cases]


# --- bytes ----------------------------------------------------------------------------------------


# Whole lines, which one translation may have together, and how many they are.
ODD = [
    (b"\n\n \n\t\n", 4),
    (b"1 2\r\n\r\n3\r\n", 3),
    (b"1\x002\n\x00\n3\n", 3),
    ("1\u20282\n\u2028\n3\n".encode(), 3),
    ("1\u00852\n\u0085\n3\n".encode(), 3),
    (b"1\x0b2\x0c3\x1c4\x1d5\x1e6\n\x0b\n", 2),
    ("\u200b\n\ufeff\n\u00ad\n\U000e0001\n".encode(), 4),
    ("\ufdd0\uffff\n\U0010ffff\n".encode(), 2),
    ("e\u0301\n\u0301\n".encode(), 2),
    (b"<unk> <BOS> <EOS> <PAD>\n<s></s>\n", 2),
]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\n", 1, id="one empty line"),
        pytest.param(b"1 2 3", 1, id="no final line end"),
        pytest.param(b"\n1 2 3", 2, id="no final line end after a blank line"),
        pytest.param(b"\xef\xbb\xbf", 0, id="a byte order mark alone"),
        pytest.param(b"\xef\xbb\xbf1 2\n\xef\xbb\xbf3\n", 2, id="byte order marks"),
        pytest.param(b"1 2\r3\r\r\n\r", 2, id="CR"),
    ],
)
def test_as_many_lines_come_out_as_go_in(training: Training, text: bytes, count: int) -> None:
    assert len(translate(training.run, text)) == count


def test_as_many_odd_lines_come_out_as_go_in(any_run: Path) -> None:
    text = b"".join(text for text, _ in ODD)
    assert len(translate(any_run, text)) == sum(count for _, count in ODD)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (b"\xef\xbb\xbf1 2 3\n4 5\n", b"1 2 3\n4 5\n"),
        (b"1 2 3\r\n4 5\r\n", b"1 2 3\n4 5\n"),
        (b"1 2 3\n4 5", b"1 2 3\n4 5\n"),
    ],
    ids=["byte order mark", "CRLF", "no final line end"],
)
def test_what_is_no_text_changes_no_translation(
    training: Training, written: bytes, plain: bytes
) -> None:
    assert translate(training.run, written) == translate(training.run, plain)


BROKEN = b"1 2\n3 \xff\xfe 4\n5 \xed\xa0\x80\n\xc3"


def test_bytes_that_are_not_utf8_are_refused_with_their_line(any_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(BROKEN)
    refused = run("translate", any_run, "-i", tmp_path / "in.txt")
    assert_refused(refused, 1, f"{tmp_path / 'in.txt'}:2: not UTF-8 (byte 0xff at column 3")


def test_bytes_that_are_not_utf8_are_replaced_if_asked(any_run: Path) -> None:
    replaced = "1 2\n3 \ufffd\ufffd 4\n5 \ufffd\ufffd\ufffd\n\ufffd\n".encode()
    assert translate(any_run, BROKEN, "--errors", "replace") == translate(any_run, replaced)


def test_replacing_changes_nothing_else() -> None:
    assert list(decode_lines([b"\xef\xbb\xbf\xff\r\n", b"a\xffb"], "x", "replace")) == [
        "\ufffd",
        "a\ufffdb",
    ]


# --- length ---------------------------------------------------------------------------------------

MOST_BYTES = 8 << 30
"""Of address space: torch alone takes four; attention over 100,000 tokens would take 80."""


def with_bounded_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


@pytest.mark.parametrize(
    ("tokens", "pieces"),
    [(1025, 2), pytest.param(100_000, 98, marks=pytest.mark.long)],
)
def test_a_line_of_very_many_tokens_is_cut_and_said(
    training: Training, tmp_path: Path, tokens: int, pieces: int
) -> None:
    neighbours = ["1 2 3 4", "5 6", "", "4 3 2 1"]
    long = " ".join(str(1 + number % 6) for number in range(tokens))
    lines = [*neighbours[:2], long, *neighbours[2:]]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    options = ["-i", str(tmp_path / "in.txt"), "--max-length", "6"]
    finished = run("translate", training.run, *options, before=with_bounded_memory)
    assert finished.code == 0, finished.err
    warning, *doubts = finished.err.splitlines()
    assert warning == (
        f"warning: {tmp_path / 'in.txt'}: line 3: {tokens:,} tokens, translated in {pieces} pieces"
    )
    assert doubts in ([], ["1 of 5 lines: doubtful, too short; line 3"])  # or nobody looks
    found = lines_of(finished)
    assert found[:2] + found[3:] == translate(
        training.run, "".join(f"{line}\n" for line in neighbours).encode()
    )
    assert pieces <= len(found[2].split()) <= 6 * pieces


@pytest.mark.long_cases
@pytest.mark.parametrize("word", ["a", "(", *long("'", "ä", "a-")])
def test_a_word_of_very_many_characters_hurts_no_neighbour(any_run: Path, word: str) -> None:
    # For the short form a word that would still take spaCy two hundred seconds.
    neighbours = [b"1 2 3 4\n", b"5 6\n"]
    long = (word * (50_000 // len(word))).encode() + b"\n"
    finished = run(
        "translate",
        any_run,
        "--max-length",
        "2",
        "--batch-tokens",
        "40000",
        stdin=neighbours[0] + long + neighbours[1],
        before=with_bounded_memory,
    )
    assert finished.code == 0, finished.err
    assert finished.err.count("\n") <= 2  # it is long, and its translation doubtful
    first, _, last = lines_of(finished)
    alone = translate(any_run, b"".join(neighbours), "--max-length", "2")
    assert [first, last] == alone


@pytest.mark.long
@pytest.mark.parametrize("word", ["a", "(", "ä"])
def test_a_word_of_a_million_characters(any_run: Path, word: str) -> None:
    finished = run(
        "translate",
        any_run,
        "--max-length",
        "2",
        "--batch-tokens",
        "40000",
        stdin=b"1 2\n" + (word * 1_000_000).encode() + b"\n3 4\n",
        before=with_bounded_memory,
    )
    assert finished.code == 0, finished.err
    first, _, last = lines_of(finished)
    assert [first, last] == translate(any_run, b"1 2\n3 4\n", "--max-length", "2")


def test_a_line_of_ten_megabytes_is_refused_by_number(training: Training, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("1 2\n" + "x" * 10_000_000)
    refused = run("translate", training.run, "-i", "long", "--engine", "torch", cwd=tmp_path)
    assert_refused(refused, 1, "long:2: the line is longer than 4 MiB; ")


@cache
def spacy_words(language: str) -> SpacyWords:
    return SpacyWords(language, language, lowercase=True)


@pytest.mark.long_cases
@pytest.mark.parametrize("language", ["en", *long("de", "xx")])
@pytest.mark.parametrize(
    "word", ["a", "(", ")", "'", '"', ".", "-", "a.", "1,", "n't", "http://", "a@", "<", "…", "€1"]
)
def test_words_are_cut_in_time_that_grows_with_the_text_alone(language: str, word: str) -> None:
    words = spacy_words(language)
    line = word * (50_000 // len(word))
    cut = words.split(line)
    assert "".join(cut) == line.lower()
    # Back again, as much as a model may write.
    text = words.join(cut[:3000])
    assert "\n" not in text


def test_words_are_cut_as_ever_up_to_256_characters() -> None:
    words = SpacyWords("en", "en", lowercase=False)
    assert words.split("a" * 256) == ["a" * 256]
    assert words.split("x " + "a" * 257 + " (y)") == ["x", "a" * 256, "a", "(", "y", ")"]
    assert words.split("a" * 512) == ["a" * 256] * 2


@pytest.mark.long_cases
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("word", ["a", *long("1 ", "ä", "(", "가")])
def test_a_million_characters_as_subwords(model_type: str, word: str) -> None:
    tokenizer = subwords(model_type)
    line = (word * (1_000_000 // len(word))).strip()
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", line)


def subwords(model_type: str) -> SentencePieceTokenizer:
    settings = SentencePieceConfig.model_validate(
        {"kind": "sentencepiece", "model_type": model_type, "vocab_size": 288}
    )
    lines = ["ein kleines Haus (alt)", "a 1 2 3 4 aa aaaa", "über den Fluss"] * 20
    model = learn_model(settings, lines, "text")
    return SentencePieceTokenizer(model, lowercase=False, source=Path("joint.model"))


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.posix
@pytest.mark.parametrize(("src", "tgt"), [(3, 2), (1, 4), (0, 1)])
def test_sides_of_different_lengths_are_refused_with_both_counts(
    training: Training, tmp_path: Path, src: int, tgt: int
) -> None:
    (tmp_path / "src").write_text("1 2\n" * src)
    (tmp_path / "ref").write_text("1 2\n" * tgt)
    before = partial(
        process.signal_at, "transformer_cli.inference.loading", "load_torch_translator", 1
    )
    refused = run(
        "evaluate",
        training.run,
        "--src",
        tmp_path / "src",
        "--ref",
        tmp_path / "ref",
        before=before,
    )
    assert_refused(refused, 1, f"src has {src} lines but", f"ref has {tgt}")


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_training_on_sides_of_different_lengths_is_refused_before_any_work(
    tmp_path: Path, side: str
) -> None:
    for name in ("src", "tgt"):
        (tmp_path / name).write_text("1 2\n" * (4 if name == side else 3))
        (tmp_path / f"val.{name}").write_text("1 2\n")
    (tmp_path / "config.yaml").write_text(
        "data: {kind: files, src_lang: de, tgt_lang: en, train: {src: src, tgt: tgt}, "
        "val: {src: val.src, tgt: val.tgt}}\n"
        "tokenizer: {kind: words, min_freq: 1}\n"
    )
    refused = run("train", "config.yaml", cwd=tmp_path)
    counts = (4, 3) if side == "src" else (3, 4)
    assert_refused(refused, 1, f"src has {counts[0]} lines but", f"tgt has {counts[1]}")
    assert not (tmp_path / "runs" / "config" / "checkpoints").exists() or not list(
        (tmp_path / "runs" / "config" / "checkpoints").iterdir()
    )


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert not [path for path in tmp_path.rglob("*") if ".partial" in path.name]

"""Whatever a configuration or a line says: one line of refusal, or what was asked for.

The short form takes seconds; the long one, 10,000 cases, minutes. Both draw the same cases each
time, so that what fails does so again.
"""

import re
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from transformer_cli.base.errors import ConfigError, CorpusError, UsageError
from transformer_cli.base.text_files import find_compressed_ending
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig, TrainingConfig
from transformer_cli.config.tokenizer_schema import SentencePieceConfig, WordsConfig
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.model.transformer import build_model
from transformer_cli.text.lines import decode_lines
from transformer_cli.text.protocol import PAD_ID, Tokenizer, Tokenizers
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer

CONFIGS = sorted(Path(__file__).parents[2].glob("configs/*.yaml"))


def cases(short: int, long: int) -> list[Any]:
    """How many cases to try, in the short form and in the long one."""
    return [short, pytest.param(long, marks=pytest.mark.long)]


def try_all(check: Callable[..., None], count: int, **strategies: Any) -> None:
    """Call ``check`` with ``count`` cases."""
    chosen = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    chosen(given(**strategies)(check))()


# --- configurations -------------------------------------------------------------------------------


def words_of(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


SCALARS = st.one_of(
    words_of(
        "~ null true no yes on 0 -0 1 -1 1e4 1e999 -.inf .nan 0x1f 0o17 1_000 1:30 2001-01-01 '' "
        '"" "\\x00" [] {} [1] {a:1} !!int !!python/name:os.system *a &a << = %YAML --- ... | '
        ">- ? - copy words files multi30k toy sentencepiece bpe unigram learned linear auto"
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=8),
    st.sampled_from(["9" * 5000, "[" * 3000, "{a: " * 3000, "- " * 3000, "a" * 100_000, "'" * 999]),
)
KEYS = st.one_of(
    words_of(
        "base seed init data data.kind data.train data.train.src data.test tokenizer "
        "tokenizer.kind tokenizer.vocab_size tokenizer.min_freq model model.d_model "
        "model.num_heads model.dropout model.positions model.max_positions model.tying "
        "training training.epochs "
        "training.batch_tokens training.schedule training.schedule.kind training.schedule.peak "
        "training.max_length training.accumulate decoding model.d_modle . .. a.b.c.d "
        + " ".join(f"decoding.{key}" for key in DecodingConfig.model_fields)
    ),
    st.text(max_size=12),
)


@st.composite
def mutated_configs(draw: st.DrawFn) -> bytes:
    """A shipped configuration with some lines and tokens dropped, repeated or replaced."""
    lines = draw(st.sampled_from(CONFIGS)).read_text().splitlines(keepends=True)
    lines = [line for line in lines if not line.startswith("#")]
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(lines) - 1)) if lines else 0
        line = lines[place] if lines else "\n"
        match draw(st.integers(0, 8)):
            case 0:
                lines[place : place + draw(st.integers(1, 4))] = []
            case 1:
                lines.insert(draw(st.integers(0, len(lines))), line)
            case 2:
                lines[place : place + 1] = [line.partition(":")[0] + ": " + draw(SCALARS) + "\n"]
            case 3:
                lines[place : place + 1] = [draw(SCALARS) + ":" + line.partition(":")[2]]
            case 4:
                lines[place : place + 1] = [" " * draw(st.integers(0, 5)) + line.lstrip()]
            case 5:
                cut = draw(st.integers(0, len(line)))
                lines[place : place + 1] = [line[:cut] + draw(st.text(max_size=4)) + line[cut:]]
            case 6:
                lines[place : place + 1] = [line.rstrip("\n")]
            case 7:
                lines.insert(place, draw(SCALARS) + draw(st.sampled_from(["\n", "", ": 1\n"])))
            case _:
                lines = lines[: place + 1]
    text = "".join(lines).encode(errors="surrogatepass")
    if draw(st.integers(0, 9)):
        return text
    place = draw(st.integers(0, len(text)))
    return text[:place] + draw(st.binary(max_size=4)) + text[place:]


def copy_bases(directory: Path) -> None:
    """Have there what the shipped configurations build on."""
    for path in CONFIGS:
        shutil.copy(path, directory)


def assert_taken_or_refused(path: Path, overrides: list[str]) -> None:
    try:
        config = load_config(path, overrides)
    except (ConfigError, UsageError) as refusal:
        message = str(refusal)
    else:
        path.write_text(dump_config(config), encoding="utf-8")
        assert load_config(path) == config
        return
    assert len(message.splitlines()) == 1, message
    assert len(message) < 1000 + len(str(path)) + len(str(overrides)), message[:2000]


@pytest.mark.long
@pytest.mark.parametrize("count", cases(150, 3000))
def test_a_mutated_configuration_is_taken_or_refused_in_one_line(
    tmp_path: Path, count: int
) -> None:
    path = tmp_path / "config.yaml"
    copy_bases(tmp_path)

    def check(content: bytes) -> None:
        path.write_bytes(content)
        assert_taken_or_refused(path, [])

    try_all(check, count, content=mutated_configs())


@pytest.mark.parametrize("count", cases(60, 1000))
def test_any_text_is_taken_or_refused_in_one_line(tmp_path: Path, count: int) -> None:
    path = tmp_path / "config.yaml"

    def check(content: bytes) -> None:
        path.write_bytes(content)
        assert_taken_or_refused(path, [])

    anything = st.one_of(
        st.binary(),
        st.text().map(str.encode),
        st.lists(SCALARS).map(lambda it: " ".join(it).encode()),
    )
    try_all(check, count, content=anything)


@pytest.mark.parametrize("count", cases(100, 2000))
def test_any_override_is_taken_or_refused_in_one_line(tmp_path: Path, count: int) -> None:
    path = tmp_path / "config.yaml"
    copy_bases(tmp_path)

    def check(name: Path, overrides: list[str]) -> None:
        path.write_bytes(name.read_bytes())
        assert_taken_or_refused(path, overrides)

    override = st.builds("{}={}".format, KEYS, SCALARS) | st.text(max_size=20)
    try_all(
        check,
        count,
        name=st.sampled_from(CONFIGS),
        overrides=st.lists(override, min_size=1, max_size=3),
    )


# --- lines ----------------------------------------------------------------------------------------

LANGUAGES = ("de", "en", "fr")
TEXT = [
    "Ein Hund läuft (schnell) durch den Schnee.",
    'Zwei Männer\'s "Haus" kostet 3,50 € oder $20.',
    "a b c 1 2 3 don't l'homme T-shirt can not",
    "über ½ Ａ ﷺ 가나 \u0301 – … „so“ «là»",
] * 10
WORDS = words_of(
    "a Hund ( ) ' \" „ “ « - – . ... , € $ 3,50 n't 's # @ http://x.y <unk> <PAD> <s> &lt; &amp; "
    "ß İ \u2581 \0 \u200b \ufeff \ufdd0 \U0010ffff \u0301 \ufdfa \u202e \uac00 "
    "\U0001f3f3\ufe0f\u200d\U0001f308"
) | st.sampled_from(list("\r\t \x0b\x0c\x1c\x85\u2028\u3000"))
SENTENCES = st.one_of(
    st.lists(WORDS, max_size=12).map(" ".join),
    st.lists(WORDS, max_size=12).map("".join),
    st.text(max_size=30),
    st.builds(lambda word, count: word * count, WORDS, st.integers(0, 120)),
)
RAW_LINES = st.one_of(
    SENTENCES.map(lambda text: text.encode(errors="surrogatepass").replace(b"\n", b" ")),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r\r\n"])


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind in LANGUAGES:
        words = SpacyWords(kind, kind, lowercase=kind == "de")
        return WordsTokenizer(words, Vocabulary.from_counts(words.count(TEXT)))
    settings_of_kind = SentencePieceConfig.model_validate(
        {
            "kind": "sentencepiece",
            "model_type": kind.split("-")[0],
            "vocab_size": 320 if "bytes" in kind else 65,
            "byte_fallback": "bytes" in kind,
        }
    )
    model = learn_model(settings_of_kind, TEXT, kind)
    return SentencePieceTokenizer(model, lowercase="lower" in kind, source=Path(kind))


KINDS = [*LANGUAGES, "bpe-bytes", "unigram-bytes-lower", "bpe", "unigram"]


@cache
def translator(kind: str) -> TorchTranslator:
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=WordsConfig(kind="words"),
        model=ModelConfig(
            d_model=8,
            num_heads=2,
            d_ff=8,
            num_encoder_layers=1,
            num_decoder_layers=1,
            tying="none",
            positions="learned" if kind in ("en", "bpe") else "sinusoidal",
            max_positions=20,
        ),
        training=TrainingConfig(max_length=19),
    )
    both = Tokenizers(tokenizer(kind), tokenizer(kind))
    model = build_model(config.model, both.src.size, both.tgt.size, PAD_ID, 1).eval()
    decoding = DecodingConfig(beam_size=2 if kind in ("fr", "unigram") else 1)
    engine = TorchEngine(model, torch.float32)
    return TextTranslator(engine, both, config, decoding, max_length=3)


@pytest.mark.long
@pytest.mark.parametrize("count", cases(80, 2500))
def test_any_lines_are_translated_one_by_one(count: int) -> None:
    def check(kind: str, raw: list[bytes], end: bytes, last_end: bool) -> None:
        data = [line + end for line in raw]
        if data and not last_end:
            data[-1] = raw[-1]
        data = [line for line in data if line]
        assume(not (data and find_compressed_ending(data[0].removeprefix(BOM_UTF8))))
        try:
            lines = list(decode_lines(data, "in.txt", "replace"))
        except CorpusError as refusal:
            assume("is UTF-16" not in str(refusal))  # zeros are, for example
            raise
        # A byte order mark alone is no line.
        assert len(lines) in ((len(data), len(data) - 1) if data else (0,))
        cuts: list[str] = []
        found = translator(kind).translate(lines, watcher=Watcher(on_long_line=cuts.append))
        assert len(found) == len(lines)
        assert not any("\n" in line for line in found)
        pattern = r"line (\d+): [\d,]+ tokens, translated in (?!1 )[\d,]+ pieces"
        numbers = [
            match and int(match[1]) for match in (re.fullmatch(pattern, cut) for cut in cuts)
        ]
        assert all(number and number <= len(lines) for number in numbers)
        try:
            assert list(decode_lines(data, "in.txt")) == lines
        except CorpusError as refusal:
            message = str(refusal)
            assert message.startswith("in.txt:")
            assert len(message.splitlines()) == 1

    try_all(
        check,
        count,
        kind=st.sampled_from(KINDS),
        raw=st.lists(RAW_LINES, max_size=4),
        end=ENDS,
        last_end=st.booleans(),
    )


@pytest.mark.long
@pytest.mark.parametrize("count", cases(140, 1500))
def test_any_line_and_any_ids_go_through_a_tokenizer(count: int) -> None:
    def check(kind: str, line: str, numbers: list[int]) -> None:
        own = tokenizer(kind)
        line = line.encode(errors="replace").decode().replace("\n", " ")
        ids = own.encode(line)
        assert all(0 <= number < own.size for number in ids)
        for each in (ids, [number % own.size for number in numbers]):
            assert "\n" not in own.decode(each)

    try_all(
        check,
        count,
        kind=st.sampled_from(KINDS),
        line=SENTENCES,
        numbers=st.lists(st.integers(0, 1000), max_size=60),
    )

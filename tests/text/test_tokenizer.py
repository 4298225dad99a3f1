import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from transformer_cli.base.errors import ConfigError, TokenizerError
from transformer_cli.config.tokenizer_schema import (
    SentencePieceConfig,
    TokenizerConfig,
    WordsConfig,
)
from transformer_cli.text import words
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import (
    TrainingText,
    copy_tokenizers,
    fingerprint,
    have_same_tokenizers,
    learn_tokenizers,
    load_manifest,
    load_tokenizers,
)

GERMAN = [
    "Ein Hund läuft über die Straße.",
    "Ein Mann im T-Shirt sieht einen Hund.",
    "Zwei Männer laufen.",
] * 20
ENGLISH = [
    "A dog runs across the street.",
    "A man in a T-shirt sees a dog.",
    "Two men don't run.",
] * 20
WORDS = WordsConfig(kind="words", min_freq=1)
JOINT = SentencePieceConfig(kind="sentencepiece", vocab_size=310)
SEPARATE = SentencePieceConfig(kind="sentencepiece", vocab_size=300, joint=False)
KINDS: list[TokenizerConfig] = [WORDS, JOINT, SEPARATE]


def learn(config: TokenizerConfig, directory: Path) -> Tokenizers:
    text = TrainingText("de", "en", GERMAN, ENGLISH, "a sum")
    return learn_tokenizers(config, text, directory)


@pytest.mark.long_cases
@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_what_is_learned_loads_from_its_directory(config: TokenizerConfig, tmp_path: Path) -> None:
    learned = learn(config, tmp_path)
    loaded = load_tokenizers(tmp_path)
    assert (learned.src.size, learned.tgt.size) == (loaded.src.size, loaded.tgt.size)
    for line in ("Ein Hund sieht die Straße.", "Ein Mann im T-Shirt sieht einen Hund."):
        assert loaded.src.encode(line) == learned.src.encode(line)
        assert loaded.src.decode(loaded.src.encode(line)) == line
    assert loaded.tgt.decode(loaded.tgt.encode("A man in a T-shirt.")) == "A man in a T-shirt."


@pytest.mark.long
@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_a_directory_holds_its_files_and_no_more(config: TokenizerConfig, tmp_path: Path) -> None:
    learn(config, tmp_path)
    expected = {
        "words": {"src.vocab.txt", "tgt.vocab.txt"},
        "joint": {"joint.model"},
        "separate": {"src.model", "tgt.model"},
    }["words" if config is WORDS else "joint" if config is JOINT else "separate"]
    assert {path.name for path in tmp_path.iterdir()} == expected | {"tokenizer.json"}
    description = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert description["format"] == 1
    assert description["kind"] == config.kind
    assert description["sha256"] == {
        name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in expected
    }


def test_joint_is_one_object(tmp_path: Path) -> None:
    learned = learn(JOINT, tmp_path)
    assert learned.src is learned.tgt
    loaded = load_tokenizers(tmp_path)
    assert loaded.src is loaded.tgt


def test_a_vocabulary_has_its_size(tmp_path: Path) -> None:
    tokenizers = learn(WordsConfig(kind="words", min_freq=1, max_size=6), tmp_path)
    assert tokenizers.tgt.size == 6


def test_rules_are_apart_from_the_language(tmp_path: Path) -> None:
    learn(WordsConfig(kind="words", tgt_rules="xx"), tmp_path)
    tokenizers = load_tokenizers(tmp_path)
    # The general rules leave "don't" whole.
    assert len(tokenizers.tgt.encode("Two men don't run.")) == 5
    assert (
        tokenizers.tgt.decode(tokenizers.tgt.encode("Two men don't run.")) == "Two men don't run."
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["words", "sentencepiece"])
def test_lowercase_text_comes_out(kind: str, tmp_path: Path) -> None:
    config: TokenizerConfig = (
        WordsConfig(kind="words", lowercase=True)
        if kind == "words"
        else SentencePieceConfig(kind="sentencepiece", vocab_size=300, lowercase=True)
    )
    learn(config, tmp_path)
    src = load_tokenizers(tmp_path).src
    assert src.decode(src.encode("Ein Mann im T-Shirt")) == "ein mann im t-shirt"


@pytest.mark.long
@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_learning_twice_gives_the_same_files(config: TokenizerConfig, tmp_path: Path) -> None:
    prints = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        learn(config, tmp_path / name)
        prints.append(fingerprint(tmp_path / name))
    assert prints[0] == prints[1]


@pytest.mark.long
def test_a_fingerprint_tells_tokenizers_apart(tmp_path: Path) -> None:
    prints = set()
    configs: list[TokenizerConfig] = [WORDS, WordsConfig(kind="words", max_size=9), JOINT]
    for number, config in enumerate(configs):
        directory = tmp_path / str(number)
        directory.mkdir()
        learn(config, directory)
        prints.add(fingerprint(directory))
        assert fingerprint(directory) == (
            hashlib.sha256((directory / "tokenizer.json").read_bytes()).hexdigest()
        )
    assert len(prints) == 3


@pytest.mark.long
@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_a_damaged_or_missing_file_is_named(config: TokenizerConfig, tmp_path: Path) -> None:
    learn(config, tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], whole + b"x", b"", b"\xff" * 40):
            path.write_bytes(damaged)
            with pytest.raises(TokenizerError, match=path.name) as caught:
                load_tokenizers(tmp_path)
            assert "\n" not in str(caught.value)
        path.unlink()
        with pytest.raises(TokenizerError, match=path.name):
            load_tokenizers(tmp_path)
        path.write_bytes(whole)
    load_tokenizers(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("kind", "bytes"),
        ("kind", "__init__"),
        ("kind", "..words"),
        ("kind", 1),
        ("lowercase", "no"),
        ("surprise", 1),
        ("sha256", {}),
    ],
)
def test_a_description_is_read_strictly(key: str, value: object, tmp_path: Path) -> None:
    learn(WORDS, tmp_path)
    path = tmp_path / "tokenizer.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**description, key: value}), encoding="utf-8")
    with pytest.raises(TokenizerError) as caught:
        load_tokenizers(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_fingerprint_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        fingerprint(tmp_path)


@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_the_text_learned_from_is_known(config: TokenizerConfig, tmp_path: Path) -> None:
    learn(config, tmp_path)
    assert load_manifest(tmp_path).learned_from == "a sum"


# --- adopted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", KINDS, ids=["words", "joint", "separate"])
def test_adopted_ones_are_the_same_but_for_the_text(
    config: TokenizerConfig, tmp_path: Path
) -> None:
    source, adopted = tmp_path / "source", tmp_path / "adopted"
    for directory in (source, adopted):
        directory.mkdir()
    learned = learn(config, source)
    tokenizers = copy_tokenizers(source, "another sum", adopted)
    for line in ("Ein Hund sieht die Straße.", "nie gesehen"):
        assert tokenizers.src.encode(line) == learned.src.encode(line)
        assert tokenizers.tgt.encode(line) == learned.tgt.encode(line)
    names = {path.name for path in source.iterdir()}
    assert {path.name for path in adopted.iterdir()} == names
    for name in names - {"tokenizer.json"}:
        assert (adopted / name).read_bytes() == (source / name).read_bytes()
    assert load_manifest(source).learned_from == "a sum"
    assert load_manifest(adopted).learned_from == "another sum"
    assert fingerprint(adopted) != fingerprint(source)
    assert have_same_tokenizers(source, adopted)


def test_others_are_not_the_same(tmp_path: Path) -> None:
    learn(WORDS, tmp_path)
    configs: list[TokenizerConfig] = [WordsConfig(kind="words", max_size=9), JOINT]
    for number, config in enumerate(configs):
        other = tmp_path / str(number)
        other.mkdir()
        learn(config, other)
        assert not have_same_tokenizers(tmp_path, other)


def test_damaged_ones_are_not_adopted(tmp_path: Path) -> None:
    source, adopted = tmp_path / "source", tmp_path / "adopted"
    for directory in (source, adopted):
        directory.mkdir()
    learn(WORDS, source)
    vocabulary = source / "tgt.vocab.txt"
    vocabulary.write_bytes(vocabulary.read_bytes() + b"x\n")
    with pytest.raises(TokenizerError, match=f"^{vocabulary}: changed since it was written"):
        copy_tokenizers(source, "another sum", adopted)
    assert not (adopted / "tokenizer.json").exists()


def test_a_min_freq_that_leaves_no_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.min_freq"):
        learn(WordsConfig(kind="words", min_freq=1000), tmp_path)


def test_a_language_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'ja'"):
        learn(WordsConfig(kind="words", tgt_rules="ja"), tmp_path)


def test_progress_sees_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[str, list[str]]] = []

    def progress(lines: Iterable[str], label: str) -> Iterable[str]:
        seen = list(lines)
        passes.append((label, seen))
        return seen

    monkeypatch.setattr(words, "show_progress", progress)
    learn_tokenizers(WORDS, TrainingText("de", "en", GERMAN, ENGLISH, "a sum"), tmp_path)
    assert passes == [("source text", GERMAN), ("target text", ENGLISH)]

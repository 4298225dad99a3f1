"""Tokenizers made elsewhere, in their own libraries and in ours."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import (
    Tokenizer as Library,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from transformer_cli.base.errors import MissingExtraError, TokenizerError
from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.extensions.augmentation.bpe_dropout import Subwords
from transformer_cli.extensions.tokenizers import huggingface
from transformer_cli.extensions.tokenizers.made_elsewhere import SpecialIds
from transformer_cli.extensions.tokenizers.settings import (
    HuggingFaceConfig,
    SentencePieceFileConfig,
)
from transformer_cli.text.protocol import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    Tokenizer,
    Tokenizers,
)
from transformer_cli.text.tokenizer import (
    TrainingText,
    copy_tokenizers,
    fingerprint,
    learn_tokenizers,
    load_manifest,
    load_tokenizers,
)

GERMAN = ["Ein Hund läuft über die Straße.", "Ein Mann im T-Shirt sieht einen Hund."] * 20
ENGLISH = ["A dog runs across the street.", "A man in a T-shirt sees a dog."] * 20
LINES = [*GERMAN, *ENGLISH]
STRANGE = ["", "   ", "😀", "a\tb\x00c", "▁ a ▁▁b", "##a ## <PAD>", "[SEP] </s> <s>", "x" * 3000]


def spm(**options: Any) -> bytes:
    model = io.BytesIO()
    trainer: Any = sentencepiece.SentencePieceTrainer
    settings = {"vocab_size": 44, "minloglevel": 2, **options}
    trainer.train(sentence_iterator=iter(LINES), model_writer=model, **settings)
    return model.getvalue()


def bert() -> Any:
    made = Library(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    made.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=150, special_tokens=specials)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(pad_id=0, pad_token="[PAD]", length=64)
    made.enable_truncation(4)
    return made


def gpt2() -> Any:
    made = Library(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
    )
    made.train_from_iterator(LINES, trainer)
    return made


def unigram() -> Any:
    made = Library(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    made.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=90, special_tokens=specials, unk_token="<unk>")
    )
    return made


def suffixed() -> Any:
    made = Library(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=90, special_tokens=["<unk>"], end_of_word_suffix="</w>"
    )
    made.train_from_iterator(LINES, trainer)
    return made


MAKERS = {"bert": bert, "gpt2": gpt2, "unigram": unigram, "suffixed": suffixed}


def learn(config: TokenizerConfig, directory: Path) -> Tokenizers:
    directory.mkdir(exist_ok=True)
    return learn_tokenizers(
        config,
        TrainingText("de", "en", GERMAN, ENGLISH, "a sum"),
        directory,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of files made elsewhere."""
    directory = tmp_path_factory.mktemp("made")
    for name, maker in MAKERS.items():
        (directory / f"{name}.json").write_text(maker().to_str())
    (directory / "default.model").write_bytes(spm())
    t5 = spm(model_type="bpe", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (directory / "t5.model").write_bytes(t5)
    return directory


def config_of(path: Path) -> TokenizerConfig:
    if path.suffix == ".model":
        return SentencePieceFileConfig(kind="sentencepiece_file", model=path)
    return HuggingFaceConfig(kind="huggingface", file=path)


FILES = ["default.model", "t5.model", *(f"{name}.json" for name in MAKERS)]


@pytest.fixture(scope="module")
def taken(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """The tokenizers of all these files."""
    where = tmp_path_factory.mktemp("taken")
    return {name: learn(config_of(made / name), where / name).src for name in FILES}


# --- ids ------------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default.model", (0, 1, 2, None)),
        ("t5.model", (2, None, 1, 0)),
        ("bert.json", (1, 2, 3, 0)),
        ("gpt2.json", (None, None, 0, None)),
        ("unigram.json", (3, 0, 2, 1)),
    ],
)
def test_specials_are_found_and_noted(
    made: Path, tmp_path: Path, name: str, expected: tuple[int | None, ...]
) -> None:
    learn(config_of(made / name), tmp_path)
    said = json.loads((tmp_path / "tokenizer.json").read_text())["specials"]["joint"]
    assert tuple(said[each] for each in ("unk", "bos", "eos", "pad")) == expected


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["default.model", "t5.model"])
def test_sentencepiece_cuts_and_writes_as_by_itself(
    made: Path, taken: dict[str, Tokenizer], name: str
) -> None:
    own: Any = sentencepiece.SentencePieceProcessor(model_file=str(made / name))
    for line in (*LINES[:2], *LINES[-2:], "ﬁn  Ａ ½", *STRANGE):
        ids = taken[name].encode(line)
        assert taken[name].decode(ids) == own.decode(own.encode(line))
        known = [taken[name].token(number) for number in ids]
        assert known == [own.id_to_piece(number) for number in own.encode(line)]
    assert taken[name].size == own.get_piece_size() + 1  # each lacks one special


@pytest.mark.long
@pytest.mark.parametrize("name", MAKERS)
def test_the_tokenizers_library_cuts_and_writes_as_by_itself(
    taken: dict[str, Tokenizer], made: Path, name: str
) -> None:
    own = Library.from_file(str(made / f"{name}.json"))
    own.no_truncation()
    own.no_padding()
    tokenizer = taken[f"{name}.json"]
    for line in (*LINES[:2], *LINES[-2:]):
        theirs = own.encode(line, add_special_tokens=False).ids
        assert len(theirs) > 4
        ids = tokenizer.encode(line)
        assert len(ids) == len(theirs)
        if own.decoder is not None:
            assert tokenizer.decode(ids) == own.decode(theirs)


def test_text_of_a_file_without_decoder_is_readable(taken: dict[str, Tokenizer]) -> None:
    tokenizer = taken["suffixed.json"]
    assert tokenizer.decode(tokenizer.encode(GERMAN[0])) == "Ein Hund läuft über die Straße ."


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("line", STRANGE)
def test_strange_lines_go_through(taken: dict[str, Tokenizer], name: str, line: str) -> None:
    tokenizer = taken[name]
    ids = tokenizer.encode(line)
    assert all(0 <= number < tokenizer.size for number in ids)
    assert not {BOS_ID, EOS_ID, PAD_ID} & set(ids)
    assert "\n" not in tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID])


@pytest.mark.parametrize("name", FILES)
def test_all_ids_can_be_written(taken: dict[str, Tokenizer], name: str) -> None:
    tokenizer = taken[name]
    assert "\n" not in tokenizer.decode(range(tokenizer.size))
    shown = [tokenizer.token(number) for number in range(tokenizer.size)]
    assert tuple(shown[:4]) == SPECIALS


def words(tokenizer: Tokenizer, line: str) -> list[str]:
    """A line's words, joined from its tokens."""
    return "".join(map(tokenizer.token, tokenizer.encode(line))).replace("▁", " ").split()


@pytest.mark.parametrize("name", ["default.model", "t5.model", "unigram.json"])
def test_tokens_tell_words(taken: dict[str, Tokenizer], name: str) -> None:
    assert words(taken[name], ENGLISH[0]) == ["A", "dog", "runs", "across", "the", "street."]


def test_if_spaces_are_lost_marks_are_words(taken: dict[str, Tokenizer]) -> None:
    assert words(taken["bert.json"], ENGLISH[0]) == [
        *("A", "dog", "runs", "across", "the", "street", ".")
    ]


def test_bytes_tell_words_too(taken: dict[str, Tokenizer]) -> None:
    assert words(taken["gpt2.json"], ENGLISH[0]) == [
        *("A", "dog", "runs", "across", "the", "street.")
    ]


def test_lowercase_is_for_encoding(made: Path, tmp_path: Path) -> None:
    config = HuggingFaceConfig(kind="huggingface", file=made / "gpt2.json", lowercase=True)
    src = learn(config, tmp_path).src
    assert src.decode(src.encode("Ein HUND")) == "ein hund"


# --- the directory --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t5.model", "bert.json"])
def test_a_directory_needs_nothing_else(made: Path, tmp_path: Path, name: str) -> None:
    away = tmp_path / name
    away.write_bytes((made / name).read_bytes())
    learned = learn(config_of(away), tmp_path / "one")
    learn(config_of(away), tmp_path / "two")
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two")
    assert load_manifest(tmp_path / "one").is_made_by(config_of(away))
    away.write_bytes(b"other")
    assert not load_manifest(tmp_path / "one").is_made_by(config_of(away))
    away.unlink()
    assert load_manifest(tmp_path / "one").is_made_by(config_of(away))
    (tmp_path / "heir").mkdir()
    adopted = copy_tokenizers(tmp_path / "one", "another sum", tmp_path / "heir")
    for tokenizers in (load_tokenizers(tmp_path / "one"), adopted):
        assert tokenizers.src is tokenizers.tgt
        assert tokenizers.src.size == learned.src.size
        assert tokenizers.src.encode(GERMAN[1]) == learned.src.encode(GERMAN[1])


def test_one_file_a_side(made: Path, tmp_path: Path) -> None:
    config = SentencePieceFileConfig(
        kind="sentencepiece_file", src_model=made / "t5.model", tgt_model=made / "default.model"
    )
    learn(config, tmp_path)
    tokenizers = load_tokenizers(tmp_path)
    assert tokenizers.src.encode(ENGLISH[0]) != tokenizers.tgt.encode(ENGLISH[0])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"src.model", "tgt.model", "tokenizer.json"}


@pytest.mark.parametrize(
    "specials",
    [
        {},
        {"src": {"unk": 0, "bos": None, "eos": None, "pad": None}},
        {"joint": {"unk": 0, "bos": 0, "eos": None, "pad": None}},
        {"joint": {"unk": 0, "bos": 10**9, "eos": None, "pad": None}},
        {"../x": {"unk": 0, "bos": None, "eos": None, "pad": None}},
    ],
)
def test_a_description_that_cannot_be_is_refused(
    made: Path, tmp_path: Path, specials: dict[str, Any]
) -> None:
    learn(config_of(made / "default.model"), tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "specials": specials}))
    with pytest.raises(TokenizerError) as caught:
        load_tokenizers(tmp_path)
    assert "\n" not in str(caught.value)


# --- BPE-dropout ----------------------------------------------------------------------------------


def test_models_without_merges_are_not_sampled_from(
    taken: dict[str, Tokenizer], tmp_path: Path
) -> None:
    for kind in ("char", "word"):
        path = tmp_path / f"{kind}.model"
        path.write_bytes(spm(model_type=kind, hard_vocab_limit=False))
        taken = taken | {kind: learn(config_of(path), tmp_path / kind).src}
    for name in ("default.model", "char", "word"):
        with pytest.raises(ValueError, match="no merges"):
            Subwords(taken[name])


def test_sampled_subwords_are_the_same_text(taken: dict[str, Tokenizer]) -> None:
    tokenizer = taken["t5.model"]
    whole = [tokenizer.encode(line) for line in GERMAN[:2]]
    sampled = Subwords(tokenizer).sample(whole, 0.5, 1)
    assert sampled != whole
    assert [tokenizer.decode(ids) for ids in sampled] == GERMAN[:2]


# --- unusable files -------------------------------------------------------------------------------


def changed(**parts: Any) -> bytes:
    return json.dumps({**json.loads(bert().to_str()), **parts}).encode()


def bad_files() -> Sequence[tuple[str, bytes]]:
    blowing = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    double = {"type": "Replace", "pattern": {"String": "hund"}, "content": "hundhund"}
    growing = {"type": "Sequence", "normalizers": [double] * 34}  # to 17 billion, of this word only
    rewriting = {"type": "Sequence", "decoders": [{"type": "Fuse"}, *[double] * 34]}
    charsmap = base64.b64encode(bytes(4) + b"long" * 50 + b"\0").decode()
    table = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    return [
        ("empty", b""),
        ("no_json", b"\xff\xfe"),
        ("list", b"[]"),
        ("vocabulary", b'{"a": 0}'),
        ("deep", b'{"model":' + b"[" * 10**5 + b"]" * 10**5 + b"}"),
        ("cut", changed()[:500]),
        ("no_unknown", changed(model={"type": "WordPiece", "vocab": {"a": 0}})),
        ("regex", changed(normalizer=blowing)),
        ("growing", changed(normalizer=growing)),
        ("rewriting", changed(decoder=rewriting)),
        ("table", changed(normalizer=table)),
    ]


@pytest.mark.long_cases
@pytest.mark.parametrize(("name", "data"), bad_files(), ids=lambda each: str(each)[:12])
def test_a_file_without_a_tokenizer_gives_one_line(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    path.write_bytes(data)
    with pytest.raises(
        TokenizerError, match=f"^{path}: not a model of the tokenizers library"
    ) as caught:
        learn(config_of(path), tmp_path / "tokenizer")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "tokenizer" / "tokenizer.json").exists()


def test_an_expression_that_is_slow_on_some_text_only_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "_LONGEST_CALL", 0.05)
    slow = {"Regex": r"hund(?:.{0,40}){4}(?=[^\s\S])"}  # 2.5 million steps a dog, and no match
    split = {"type": "Split", "pattern": slow, "behavior": "Isolated", "invert": False}
    data = changed(pre_tokenizer=split)
    path = tmp_path / "slow.json"
    specials = SpecialIds(unk=0, bos=1, eos=2, pad=3)
    tokenizer = huggingface.HuggingFaceTokenizer(data, False, path, specials)
    assert tokenizer.encode("ein Hund")
    with pytest.raises(TokenizerError, match=rf"^{path}: .*\(not done with a line after 0 s\)$"):
        tokenizer.encode(f"{'hund ' * 20}{'x' * 40}")


@pytest.mark.posix
def test_other_files_are_one_line(made: Path, tmp_path: Path) -> None:
    model = tmp_path / "no.model"
    model.write_bytes((made / "bert.json").read_bytes())
    for path in (
        model,
        tmp_path / "missing.model",
        tmp_path / "missing.json",
        tmp_path,
        Path("/dev/zero"),
    ):
        with pytest.raises(TokenizerError, match=f"^{path}: ") as caught:
            learn(config_of(path), tmp_path / "tokenizer")
        assert "\n" not in str(caught.value)


def test_a_file_far_too_large_is_not_read(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_cli.text.tokenizer.MAX_TOKENIZER_BYTES", 1000)
    with pytest.raises(TokenizerError, match="but the limit is 1,000"):
        learn(config_of(made / "bert.json"), tmp_path)


def test_a_missing_library_names_its_extra(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tokenizers>="):
        learn(config_of(made / "bert.json"), tmp_path)

"""Reserved tokens: slots, the joiner and tags, behind any tokenizer's own ids."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, strategies as st
from pydantic import TypeAdapter
from tokenizers import Tokenizer as Library, models, pre_tokenizers, trainers

from transformer_cli.base.errors import TokenizerError, UsageError
from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.extensions.constraints.kind import make_record
from transformer_cli.extensions.constraints.reserved import SLOTS, ReservedTokenizers
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS, Group
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, Tokenizer, Tokenizers
from transformer_cli.text.tokenizer import TrainingText, copy_tokenizers, learn_tokenizers


class CharactersTokenizer(Tokenizer):
    """Characters as ids, by their code points; a run of white space is one space."""

    size = 0x110000 + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        return [ord(each) + len(SPECIALS) for each in " ".join(line.split())]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.token(number) for number in ids if number >= len(SPECIALS))

    def token(self, number: int) -> str:
        return SPECIALS[number] if number < len(SPECIALS) else chr(number - len(SPECIALS))


CHARACTERS = CharactersTokenizer()
TOKENIZERS = ReservedTokenizers.of(
    Tokenizers(CHARACTERS, CHARACTERS), ["printf", "braces", "tags", "urls"], ["news", "web"]
)
JOINER = CHARACTERS.size
SLOT = [JOINER + 1 + number for number in range(SLOTS)]
NEWS, WEB = SLOT[-1] + 1, SLOT[-1] + 2


def text(line: str) -> list[int]:
    return CHARACTERS.encode(line)


def shown(line: str, translated: list[int] | None = None) -> str:
    """What is written of ids that translate a line; without any, of the line's own."""
    source = TOKENIZERS.encode_source(line)
    ids, values = source.ids, source.values
    ids = ids if translated is None else translated
    return TOKENIZERS.tgt.detokenize(ids, TOKENIZERS.tgt.filled_tokens(ids, values))


def test_placeholders_become_slots_with_a_joiner_where_there_is_no_space() -> None:
    source = TOKENIZERS.encode_source("%s: <b>{name}</b> x")
    ids, values = source.ids, source.values
    assert values == ("%s", "<b>", "{name}", "</b>")
    expected = [SLOT[0], JOINER, *text(":"), SLOT[1], JOINER, SLOT[2], JOINER, SLOT[3], *text("x")]
    assert ids == expected


def test_equal_placeholders_share_a_slot_and_a_pair_has_those_of_both_sides() -> None:
    (src,), (tgt,) = TOKENIZERS.encode_pairs(["%d {a} %s %d"], ["{b} %s: %d"])
    assert src == [SLOT[0], *text("{a}"), SLOT[1], SLOT[0]]
    assert tgt == [*text("{b}"), SLOT[1], JOINER, *text(":"), SLOT[0]]


def test_more_placeholders_than_slots_stay_text() -> None:
    line = " ".join(f"{{{number}}}" for number in range(SLOTS + 1))
    source = TOKENIZERS.encode_source(line)
    ids, values = source.ids, source.values
    assert len(values) == SLOTS
    assert ids == [*SLOT, *text(f"{{{SLOTS}}}")]
    assert shown(line) == line


@given(
    st.lists(
        st.sampled_from(["%s", "{a}", "<b>", "</b>", "http://x.de/a", " ", "x", ".", "\u00a0", "1"])
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
    ).map("".join)
)
def test_a_line_is_restored_up_to_white_space(line: str) -> None:
    assert shown(line).split() == line.split()
    (src,), (tgt,) = TOKENIZERS.encode_pairs([line], [line])
    assert (src, tgt) == (TOKENIZERS.encode_source(line).ids,) * 2


def test_a_hypothesis_may_have_any_ids() -> None:
    ids = [
        JOINER,
        SLOT[0],
        JOINER,
        JOINER,
        *text("a"),
        SLOT[5],
        *text("b"),
        JOINER,
        SLOT[5],
        *text("c"),
    ]
    assert shown("%s", [*ids, NEWS, JOINER]) == "%sa bc"
    assert TOKENIZERS.tgt.decode([SLOT[0], JOINER, *text("a")]) == "a"


def test_a_prefix_has_slots_of_its_source() -> None:
    source = TOKENIZERS.encode_source("%d %s")
    assert TOKENIZERS.encode_prefix("{a} %s", source) == [*text("{a}"), SLOT[1]]


# --- every kind -----------------------------------------------------------------------------------

GERMAN = ["Die Datei %s fehlt.", "<b>Ein</b> Mann sieht {name} und lacht laut.", "Ein {Hund}"] * 9
ENGLISH = ["The file %s is missing.", "<b>A</b> man sees {name} and laughs loudly.", "A dog"] * 9
SYMBOLS = ["%s", "<b>"]


def made_elsewhere(directory: Path) -> None:
    trainer: Any = sentencepiece.SentencePieceTrainer
    model = io.BytesIO()
    options = {"model_writer": model, "vocab_size": 44, "user_defined_symbols": SYMBOLS}
    trainer.train(sentence_iterator=iter([*GERMAN, *ENGLISH]), minloglevel=2, **options)
    (directory / "spm.model").write_bytes(model.getvalue())
    library = Library(models.BPE(unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<unk>", "<s>", "</s>", "<pad>"]
    library.train_from_iterator(
        [*GERMAN, *ENGLISH], trainers.BpeTrainer(vocab_size=400, special_tokens=specials)
    )
    library.save(str(directory / "bpe.json"))


KINDS: dict[str, dict[str, Any]] = {
    "words": {"kind": "words"},
    "sentencepiece": {"kind": "sentencepiece", "vocab_size": 310, "joint": False},
    "sentencepiece file": {"kind": "sentencepiece_file", "model": "spm.model"},
    "huggingface file": {"kind": "huggingface", "file": "bpe.json"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    made_elsewhere(directory)
    return directory


def learned(
    kind: str, made: Path, directory: Path, protect: Sequence[Group], tags: Sequence[str]
) -> Tokenizers:
    settings = KINDS[kind] | {"protect": list(protect)}
    for key in {"model", "file"} & settings.keys():
        settings[key] = made / settings[key]
    config: Any = TypeAdapter(TokenizerConfig).validate_python(settings)
    directory.mkdir()
    return learn_tokenizers(
        config,
        TrainingText("de", "en", GERMAN, ENGLISH, "sum"),
        directory,
        {"reserved": record} if (record := make_record(protect, tags)) else {},
    )


HOSTILE = [
    "⟨joiner⟩ ⟨1⟩ ⟨16⟩ ⟨tag news⟩ ⟨news⟩",
    "<unk> <BOS> <EOS> <PAD> <s> </s> [SEP] <0x0A> ▁ ▁▁ ## ##a",
    "\ue000\uf8ff\U000f0000 \x00\x01\x1f\x7f\x85\u200b\u2028 \ufdd0",
    "4 5 61 62 63 64 314 315 316 400",
    "⟨1⟩" * 500,
    "news --tag news {news} %s",
    "<b>Ein</b> %s",
]


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_encoded_to_a_reserved_id(kind: str, made: Path, tmp_path: Path) -> None:
    both = learned(kind, made, tmp_path / "a", ["printf", "tags", "braces"], ["news", "web"])
    assert isinstance(both, ReservedTokenizers)
    for tokenizer in (both.src, both.tgt):
        names = [tokenizer.token(number) for number in range(tokenizer.text_size, tokenizer.size)]
        assert len(set(names)) == len(names) == 1 + SLOTS + 2
        for line in [*HOSTILE, *names, "".join(names), *(f"▁{name}" for name in names)]:
            ids = tokenizer.encode(line)
            assert max(ids, default=0) < tokenizer.text_size
            assert not {BOS_ID, EOS_ID, PAD_ID} & set(ids)
    for line in HOSTILE:
        source = both.encode_source(line)
        ids, values = source.ids, source.values
        tags = set(both.src.source_ids)
        assert not tags & set(ids)
        # As many slots as there are placeholders of the line itself.
        assert len({n for n in ids if n > both.src.text_size}) == len(values)
    assert both.tag_id("web") == both.tag_id("news") + 1 == both.src.size - 1
    assert both.src.size - both.src.text_size == both.tgt.size - both.tgt.text_size


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", KINDS)
def test_lines_keep_their_placeholders(kind: str, made: Path, tmp_path: Path) -> None:
    both = learned(kind, made, tmp_path / "a", GROUPS, [])
    assert (both.src is both.tgt) == (kind not in ("words", "sentencepiece"))
    for src, tgt in zip(GERMAN[:3], ENGLISH[:3], strict=True):
        ids = both.encode_pairs([src], [tgt])[1][0]
        values = both.encode_source(src).values
        written = both.tgt.detokenize(ids, both.tgt.filled_tokens(ids, values))
        assert written.replace(" ", "") == tgt.replace(" ", "")
        assert kind == "words" or written == tgt
        source = both.encode_source(src)
        tokens = both.source_tokens(source, source.ids)
        assert [token for token in tokens if token in values] == list(values)


def test_vocabularies_are_learned_without_what_slots_stand_for(made: Path, tmp_path: Path) -> None:
    learned("words", made, tmp_path / "a", ["printf", "tags", "braces"], [])
    vocabulary = (tmp_path / "a" / "src.vocab.txt").read_text().split()
    assert "Datei" in vocabulary
    assert not {"%s", "name", "b"} & set(vocabulary)
    assert "Hund" in vocabulary  # its braces are on one side only


def test_without_protection_user_defined_symbols_stay_pieces(made: Path, tmp_path: Path) -> None:
    plain = learned("sentencepiece file", made, tmp_path / "a", [], [])
    assert not isinstance(plain, ReservedTokenizers)
    tokens = [plain.src.token(number) for number in plain.src.encode(GERMAN[0])]
    assert "%s" in tokens
    protected = learned("sentencepiece file", made, tmp_path / "b", ["braces"], [])
    assert protected.encode_source(GERMAN[0]).ids == plain.src.encode(GERMAN[0])


def test_manifests_without_reserved_tokens_are_as_they_were(made: Path, tmp_path: Path) -> None:
    learned("words", made, tmp_path / "a", [], [])
    assert "codecs" not in json.loads((tmp_path / "a/tokenizer.json").read_text())
    learned("words", made, tmp_path / "b", ["tags", "printf", "tags"], ["web"])
    manifest = json.loads((tmp_path / "b/tokenizer.json").read_text())
    assert manifest["codecs"] == {"reserved": {"protect": ["printf", "tags"], "tags": ["web"]}}


def test_copies_know_the_tags_that_they_were_learned_with(made: Path, tmp_path: Path) -> None:
    learned("sentencepiece", made, tmp_path / "a", [], ["news", "web"])
    (tmp_path / "b").mkdir()
    copied = copy_tokenizers(
        tmp_path / "a", "other", tmp_path / "b", {"reserved": {"tags": ["web"]}}
    )
    assert isinstance(copied, ReservedTokenizers)
    assert copied.tags == ("news", "web")
    with pytest.raises(TokenizerError, match="has no tag 'blog', but only news, web; "):
        copy_tokenizers(
            tmp_path / "a", "other", tmp_path / "b", {"reserved": {"tags": ["blog", "web"]}}
        )
    with pytest.raises(
        UsageError, match=r"^no tag 'nwes'; did you mean 'news'\? known tags: news, web$"
    ):
        copied.tagged("nwes")
    with pytest.raises(UsageError, match=r"^no tag 'x'; the run has no tags"):
        Tokenizers(CHARACTERS, CHARACTERS).tagged("x")


# --- the rest of the protocol ---------------------------------------------------------------------


def test_slots_are_shown_as_the_placeholders_of_the_line() -> None:
    source = TOKENIZERS.encode_source("%s: a <b>b")
    ids = [NEWS, *source.ids]
    assert "".join(map(TOKENIZERS.src.token, ids)) == "⟨tag news⟩⟨1⟩⟨joiner⟩: a⟨2⟩⟨joiner⟩b"
    assert TOKENIZERS.source_tokens(source, ids) == ["", "%s", "", *": a", "<b>", "", "b"]

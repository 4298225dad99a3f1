"""Reserved tokens: slots, the glue token and tags, behind any tokenizer's own ids."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.reserved import SLOTS, ReservedTokenizers
from transformer_cli.text.vocabulary import SPECIALS


class CharactersTokenizer(Tokenizer):
    """Characters as ids, by their code points; a run of white space is one space."""

    size = 0x110000 + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        return [ord(each) + len(SPECIALS) for each in " ".join(line.split())]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.token(number) for number in ids if number >= len(SPECIALS))

    def token(self, number: int) -> str:
        return SPECIALS[number] if number < len(SPECIALS) else chr(number - len(SPECIALS))

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        return [place == 0 or self.token(ids[place - 1]) == " " for place in range(len(ids))]


CHARACTERS = CharactersTokenizer()
TOKENIZERS = ReservedTokenizers.of(
    Tokenizers(CHARACTERS, CHARACTERS), ["printf", "braces", "tags", "urls"], ["news", "web"]
)
GLUE = CHARACTERS.size
SLOT = [GLUE + 1 + number for number in range(SLOTS)]
NEWS, WEB = SLOT[-1] + 1, SLOT[-1] + 2


def text(line: str) -> list[int]:
    return CHARACTERS.encode(line)


def shown(line: str, translated: list[int] | None = None) -> str:
    """What is written of ids that translate a line; without any, of the line's own."""
    ids, values = TOKENIZERS.encode_source(line)
    ids = ids if translated is None else translated
    return TOKENIZERS.tgt.detokenize(ids, TOKENIZERS.tgt.filled_tokens(ids, values))


def test_placeholders_become_slots_with_glue_where_there_is_no_space() -> None:
    ids, values = TOKENIZERS.encode_source("%s: <b>{name}</b> x")
    assert values == ("%s", "<b>", "{name}", "</b>")
    expected = [SLOT[0], GLUE, *text(":"), SLOT[1], GLUE, SLOT[2], GLUE, SLOT[3], *text("x")]
    assert ids == expected


def test_equal_placeholders_share_a_slot_and_a_pair_has_those_of_both_sides() -> None:
    src, tgt = TOKENIZERS.encode_pair("%d {a} %s %d", "{b} %s: %d")
    assert src == [SLOT[0], *text("{a}"), SLOT[1], SLOT[0]]
    assert tgt == [*text("{b}"), SLOT[1], GLUE, *text(":"), SLOT[0]]


def test_more_placeholders_than_slots_stay_text() -> None:
    line = " ".join(f"{{{number}}}" for number in range(SLOTS + 1))
    ids, values = TOKENIZERS.encode_source(line)
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
    src, tgt = TOKENIZERS.encode_pair(line, line)
    assert (src, tgt) == (TOKENIZERS.encode_source(line).ids,) * 2


def test_a_hypothesis_may_have_any_ids() -> None:
    ids = [GLUE, SLOT[0], GLUE, GLUE, *text("a"), SLOT[5], *text("b"), GLUE, SLOT[5], *text("c")]
    assert shown("%s", [*ids, NEWS, GLUE]) == "%sa bc"
    assert TOKENIZERS.tgt.decode([SLOT[0], GLUE, *text("a")]) == "a"


def test_a_prefix_has_slots_of_its_source() -> None:
    assert TOKENIZERS.encode_target("{a} %s", ("%d", "%s")) == [*text("{a}"), SLOT[1]]

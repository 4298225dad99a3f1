from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from transformer_cli.base.errors import TokenizerError
from transformer_cli.text.protocol import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
)
from transformer_cli.text.words import Vocabulary

COUNTS = {"der": 3, "Hund": 1, "ein": 5, "Ball": 3, "und": 1}


def test_specials_have_fixed_ids() -> None:
    vocabulary = Vocabulary(["Hund"])
    assert (UNK_ID, BOS_ID, EOS_ID, PAD_ID) == (0, 1, 2, 3)
    assert [*vocabulary.tokens[:5]] == ["<unk>", "<BOS>", "<EOS>", "<PAD>", "Hund"]
    assert len(vocabulary) == 5


def test_frequent_tokens_first_and_ties_by_the_token() -> None:
    vocabulary = Vocabulary.from_counts(COUNTS)
    assert vocabulary.tokens[4:] == ("ein", "Ball", "der", "Hund", "und")


def test_order_of_first_appearance() -> None:
    vocabulary = Vocabulary.from_counts(COUNTS, order="appearance")
    assert vocabulary.tokens[4:] == ("der", "Hund", "ein", "Ball", "und")


def test_rare_tokens_are_left_out() -> None:
    assert Vocabulary.from_counts(COUNTS, min_freq=3).tokens[4:] == ("ein", "Ball", "der")


def test_max_size_counts_specials_and_keeps_the_most_frequent_in_either_order() -> None:
    by_frequency = Vocabulary.from_counts(COUNTS, max_size=6)
    by_appearance = Vocabulary.from_counts(COUNTS, max_size=6, order="appearance")
    assert len(by_frequency) == len(by_appearance) == 6
    assert by_frequency.tokens[4:] == ("ein", "Ball")
    assert by_appearance.tokens[4:] == ("ein", "Ball")
    assert Vocabulary.from_counts(COUNTS, max_size=7, order="appearance").tokens[4:] == (
        "der",
        "ein",
        "Ball",
    )


def test_unknown_tokens_have_id_0() -> None:
    assert Vocabulary(["Hund"]).id("Katze") == UNK_ID


@pytest.mark.parametrize("special", SPECIALS)
def test_text_spelled_like_a_special_is_unknown(special: str) -> None:
    vocabulary = Vocabulary.from_counts({special: 9, "Hund": 1})
    assert vocabulary.id(special) == UNK_ID
    assert vocabulary.tokens == (*SPECIALS, "Hund")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1),
        st.integers(1, 9),
    )
)
def test_a_saved_vocabulary_loads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int]
) -> None:
    path = tmp_path_factory.mktemp("vocabulary") / "src.vocab.txt"
    vocabulary = Vocabulary.from_counts(counts)
    loaded = Vocabulary.parse(vocabulary.dump().encode(), path)
    assert loaded.tokens == vocabulary.tokens
    assert [loaded.id(token) for token in counts] == [vocabulary.id(token) for token in counts]


def test_the_file_is_one_token_a_line(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    data = Vocabulary(["a\u2028b", "c\x85", "d\r"]).dump().encode()
    assert data == "<unk>\n<BOS>\n<EOS>\n<PAD>\na\u2028b\nc\x85\nd\r\n".encode()
    assert Vocabulary.parse(data, path).id("c\x85") == 5


HEAD = b"<unk>\n<BOS>\n<EOS>\n<PAD>\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<unk>\n<BOS>\n",
        b"<PAD>\n<BOS>\n<EOS>\n<unk>\n",
        HEAD + b"a\nb\na\n",
        HEAD + b"a\n<PAD>\n",
        HEAD + b"a\n\nb\n",
        HEAD + b"a\n\xff\n",
        HEAD + b"a\nb",
        HEAD + b"a" * (1 << 26) + b"\n",
    ],
    ids=range(9),
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(
        TokenizerError, match=r"v\.txt: not a vocabulary \(at most 64 MiB"
    ) as caught:
        Vocabulary.parse(data, Path("v.txt"))
    assert "\n" not in str(caught.value)

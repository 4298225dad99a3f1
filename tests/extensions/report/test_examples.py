from hypothesis import given, strategies as st

from transformer_cli.extensions.report.examples import (
    Span,
    choose_sentences,
    mark_differences,
    sentence_chrf,
    split_parts,
)


def _split_words(text: str) -> list[str]:
    return [part for part in split_parts(text) if part[0].isalnum()]


def test_words_of_many_scripts() -> None:
    assert _split_words("Don’t stop – Café, x_1!") == ["Don", "t", "stop", "Café", "x_1"]
    assert _split_words("नमस्ते दुनिया。日本語") == ["नमस्ते", "दुनिया", "日", "本", "語"]
    assert _split_words("กี่ครั้ง") == ["กี่", "ค", "รั้", "ง"]  # no mark without its consonant


@given(st.text())
def test_pieces_make_up_the_text(text: str) -> None:
    assert "".join(split_parts(text)) == text


def test_differences_are_marked_on_both_sides() -> None:
    assert mark_differences("A small dog runs.", "A dog is running fast.") == (
        [
            Span("A ", False),
            Span("small", True),
            Span(" dog ", False),
            Span("runs", True),
            Span(".", False),
        ],
        [
            Span("A dog ", False),
            Span("is running fast", True),
            Span(".", False),
        ],
    )


@given(st.text(alphabet="ab .<", max_size=20), st.text(alphabet="ab .<", max_size=20))
def test_marks_lose_nothing(first: str, second: str) -> None:
    for text, spans in zip((first, second), mark_differences(first, second), strict=True):
        assert "".join(span.text for span in spans) == text
    same, _ = mark_differences(first, first)
    assert not any(span.differs for span in same)


def test_white_space_alone_is_no_difference() -> None:
    first, second = mark_differences("a  b", "a b")
    assert not any(span.differs for span in first + second)


def test_the_worst_the_best_and_some_at_random_are_chosen() -> None:
    scores = [50.0, 100.0, 0.0, 100.0, 0.0, 70.0]
    references = ["x", "short", "longer one", "much longer", "a", "y"]
    chosen = choose_sentences(scores, references, shown=2)
    assert chosen["worst"] == [2, 4]
    assert chosen["best"] == [3, 1]
    assert len(set(chosen["random"])) == 2
    assert chosen == choose_sentences(scores, references, shown=2)
    assert choose_sentences([1.0], ["x"], shown=2) == {"worst": [0], "best": [0], "random": [0]}


def test_sentences_have_scores_of_their_own() -> None:
    assert [round(score) for score in sentence_chrf(["a cat", "xyz"], ["a cat", "a dog"])] == [
        100,
        0,
    ]

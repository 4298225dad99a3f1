"""Tags that are taken out of a text and placed in its translation."""

import re
from itertools import accumulate

import pytest
from hypothesis import given, settings, strategies as st

from extensions.documents.fakes import Line, reverse, shout
from transformer_cli.extensions.documents.document import Segment, Tag
from transformer_cli.extensions.documents.inline import PlainText, are_tags_kept, place_tags

WORD = re.compile(r"\S+")
TAG = re.compile(r"<(/?)(\w+)(/?)>")


def segment(text: str) -> Segment:
    """A text with tags such as <a>, </a> and <x1/>."""
    kinds = {("", ""): "open", ("/", ""): "close", ("", "/"): "alone"}
    return Segment(
        text,
        "",
        tuple(
            Tag(*match.span(), kinds[match[1], match[3]], match[2])  # type: ignore[arg-type]
            for match in TAG.finditer(text)
        ),
    )


def place(text: str, by: Line, plain: PlainText) -> str:
    words = [[m.span() for m in WORD.finditer(one)] for one in (plain.text, by.text)]
    return place_tags(plain, words[0], by.text, words[1], set(by.alignment))


def translate(text: str, by: object = shout) -> str:
    plain = PlainText.of(segment(text))
    return place(text, by(plain.text), plain)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "shouted", "reversed_"),
    [
        ("Click <b>here</b>.", "CLICK <b>HERE</b>.", "<b>here</b>. Click"),
        ("a <b>b c</b> d", "A <b>B C</b> D", "d <b>c b</b> a"),
        ("a <x/> b", "A <x/> B", "<x/> b a"),
        ("a<x/> b", "A<x/> B", "b a<x/>"),
        ("a <x/>.", "A <x/>.", "a <x/>."),
        ("one<br/>two", "ONE<br/>TWO", "<br/>two one"),
        ("<a><x/></a> b c", "<a><x/></a> B C", "c <a><x/></a> b"),
        ("<a>a <b>b</b></a> <i>c</i>", "<a>A <b>B</b></a> <i>C</i>", "<i>c</i> <a><b>b</b> a</a>"),
        ("a <b> b </b> c", "A <b>B</b> C", "c <b>b</b> a"),
        (
            "a<x/><b> b</b><y/><i> c</i>, d",
            "A<x/> <b>B</b><y/> <i>C</i>, D",
            "d <y/><i>c</i>,<x/> <b>b</b> a",
        ),
        ("a<wbr/>b<wbr/> c", "AB<wbr/><wbr/> C", "<wbr/>c ab<wbr/>"),
    ],
)
def test_tags_go_with_their_words(text: str, shouted: str, reversed_: str) -> None:
    assert translate(text) == shouted
    assert translate(text, reverse) == reversed_


def trees(depth: int) -> st.SearchStrategy[list[object]]:
    node: st.SearchStrategy[object] = st.sampled_from(["a", "bc.", "(d", "é", " ", " ", "x", "!"])
    if depth:
        node |= st.tuples(st.just("pair"), st.deferred(lambda: trees(depth - 1)))
    return st.lists(st.one_of(node, st.just(None)), max_size=5)


def write_tree(nodes: list[object], count: list[int]) -> str:
    written = ""
    for node in nodes:
        count[0] += 1
        name = f"t{count[0]}"
        if node is None:
            written += f"<{name}/>"
        elif isinstance(node, str):
            written += node
        else:
            written += f"<{name}>{write_tree(node[1], count)}</{name}>"  # type: ignore[index]
    return written


def ends_of_words(text: str) -> set[int]:
    return set(accumulate(map(len, text.split())))


@settings(deadline=None)
@given(trees(3), st.text("ab .,(", max_size=30), st.data())
def test_no_tag_is_lost_doubled_or_badly_nested(
    tree: list[object], translation: str, data: st.DataObject
) -> None:
    text = write_tree(tree, [0])
    source, plain = segment(text), PlainText.of(segment(text))
    sizes = len(plain.text.split()), len(translation.split())
    links: tuple[tuple[int, int], ...] = ()
    if all(sizes):
        pairs = st.tuples(*(st.integers(0, size - 1) for size in sizes))
        links = tuple(data.draw(st.lists(pairs, max_size=12)))
    written = place(text, Line(translation, links), plain)
    assert are_tags_kept(source, written)
    assert sorted(TAG.findall(written)) == sorted(TAG.findall(text))
    assert TAG.sub("", written).split() == translation.split() or "".join(
        TAG.sub("", written).split()
    ) == "".join(translation.split())
    # Words stay apart, unless a tag separates two words of the source without a space.
    separating = {one.text for one in plain.tags if one.separates}
    shown = TAG.sub(lambda tag: " " * (tag[0] in separating), written)
    assert ends_of_words(translation) <= ends_of_words(shown)
    waiting: list[str] = []
    for match in TAG.finditer(written):
        if match[1]:
            assert waiting.pop() == match[2]
        elif not match[3]:
            waiting.append(match[2])


@pytest.mark.parametrize("text", ["a <a>b <b>c</a> d</b>", "</a>a b", "a <b>b c"])
def test_tags_that_are_not_nested_keep_their_order(text: str) -> None:
    written = translate(text, reverse)
    assert TAG.findall(written) == TAG.findall(text)


def test_lost_doubled_and_crossing_tags_are_seen() -> None:
    source = segment("<a>b</a> <x/> <c>d</c>")
    assert are_tags_kept(source, "<c>d</c> <a>b</a><x/>")
    for text in ("<a>b</a> <c>d</c>", "<a>b</a><x/><x/><c>d</c>", "<a>b<c></a><x/></c>"):
        assert not are_tags_kept(source, text)


def test_a_tag_at_punctuation_does_not_cling_to_words() -> None:
    links = ((0, 0), (2, 2), (3, 1), (4, 3))
    written = translate("of (<x/>, <y/>; or) z", lambda _: Line("o z r e", links))
    assert written == "o <x/> z <y/> r e"


@pytest.mark.parametrize("text", ["a<x/>b", "<b>a<x/></b>b", "<a>a</a><b>b</b>"])
def test_a_tag_between_words_keeps_them_apart(text: str) -> None:
    assert PlainText.of(segment(text)).text == "a b"
    assert PlainText.of(segment("<b>a</b>b")).text == "ab"


def test_an_opening_tag_may_be_closed_by_several() -> None:
    tags = (Tag(0, 1, "open", "1"), Tag(2, 4, "close", "1"), Tag(5, 6, "open", "2"))
    source = Segment("[a]b [c]d", "", (*tags, Tag(7, 9, "close", "2")))
    assert are_tags_kept(source, "[c]d [a]b")
    assert not are_tags_kept(source, "[c]d ]b [a")


HINDI = {"hello": "नमस्ते", "here": "यहाँ", "my": "मेरे"}


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("now <b>hello</b> now", "now <b>नमस्ते</b> now"),
        ("<i>here</i>.", "<i>यहाँ</i>."),
        ("(<i>my</i>)", "(<i>मेरे</i>)"),
    ],
)
def test_tags_leave_letters_their_marks(text: str, translation: str) -> None:
    def by(line: str) -> Line:
        words = line.split()
        written = re.sub(r"[a-z]+", lambda word: HINDI.get(word[0], word[0]), line)
        return Line(written, tuple((place, place) for place in range(len(words))))

    assert translate(text, by) == translation


@pytest.mark.parametrize("words", [("नमस्ते", "कहो"), ("cafe\u0301", "bar"), ("a", "b")])
def test_words_that_end_in_marks_are_kept_apart(words: tuple[str, str]) -> None:
    assert PlainText.of(segment("<br/>".join(words))).text == " ".join(words)

"""Takes inline tags out of a text, and puts them back at the same words of its translation."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

from transformer_cli.extensions.documents.document import Edit, Segment, Tag, splice
from transformer_cli.extensions.verbatim.characters import MARKS, is_of_word

Span = tuple[int, int]  # of a word in a text, or of words in a list of words

# Each alternative ends at the next sign that could begin it, so that time grows linearly.
MATH = re.compile(
    r"\$\$(?:(?!\$\$|\n\s*\n).)++\$\$"
    r"|\\\[(?:(?!\\[\[\]]|\n\s*\n).)++\\\]|\\\((?:(?!\\[()]|\n\s*\n).)++\\\)"
    r"|(?<![\\$\w])\$(?![\s$]|\d[\d.,]*\s+[^\W\d_]{2})(?:\\.|(?!\n\s*\n)[^$\\`])++(?<!\s)\$(?![\w$])",
    re.DOTALL,
)
"""TeX formulas, as in MathJax, KaTeX and Pandoc; amounts, as in '$5 or $6', do not match."""
_LETTERS = re.compile(rf"[\w{MARKS}]+")
_MOST_SIGNS = 4  # up to this many signs around a word are placed separately
_UNSEEN = re.compile(r"<(?:wbr\b|\d)", re.IGNORECASE)  # the digit begins a time in WebVTT
_CLINGING = ".,;:!?…)"


class _TakenTag(NamedTuple):
    text: str
    tag: Tag
    at: int  # offset in the text without tags
    spaces: tuple[bool, bool]  # whether white space, or an end of the text, is before and after it
    words: tuple[bool, bool]  # whether a word is before and after it
    separates: bool = False  # whether it separates two words without white space


@dataclass(frozen=True)
class PlainText:
    """A segment's text without its tags, and a list of these tags with their positions."""

    text: str
    tags: Sequence[_TakenTag]

    @classmethod
    def of(cls, segment: Segment) -> "PlainText":
        """Take out a segment's tags; where a tag has spaces on both sides, keep only one space."""
        taken: list[_TakenTag] = []
        starts = [*(tag.start for tag in segment.tags), len(segment.text)]
        plain, has_closed, is_apart = segment.text[: starts[0]], False, False
        for tag, following in zip(segment.tags, starts[1:], strict=True):
            before, after = segment.text[: tag.start][-1:], segment.text[tag.end : tag.end + 1]
            spaces = not before or before.isspace(), not after or after.isspace()
            words = is_of_word(before), is_of_word(after)
            written = segment.text[tag.start : tag.end]
            taken.append(_TakenTag(written, tag, len(plain), spaces, words))
            text = segment.text[tag.end : following]
            has_closed |= tag.kind == "close"
            is_apart |= tag.kind == "alone" and not _UNSEEN.match(written)
            is_apart |= has_closed and tag.kind == "open"
            ends_word = is_of_word(plain[-1:]) or plain.endswith(tuple(_CLINGING))
            if is_apart and ends_word and is_of_word(text[:1]):
                between = [one for one in taken if one.at == len(plain)]
                taken[-len(between) :] = [one._replace(separates=True) for one in between]
                plain += " "  # <br/> between words, or </a><a>
            elif is_of_word(plain[-2:-1]) and plain[-1] == " " and text and text[0] in _CLINGING:
                plain = plain.rstrip(" ")
                taken = [one._replace(at=min(one.at, len(plain))) for one in taken]
            elif not plain or plain[-1].isspace():
                text = text.removeprefix(" ")
            has_closed, is_apart = has_closed and not text, is_apart and not text
            plain += text
        return cls(plain, taken)


def are_tags_kept(segment: Segment, text: str) -> bool:
    """Return whether a translation has its segment's tags: well nested, or else in their order."""
    found, expected = segment.split(text)[1::2], segment.tag_texts
    if Counter(found) != Counter(expected):
        return False
    if find_partners(segment.tags) is None:
        return found == expected
    closes = find_closing(segment)
    is_closing = {expected[place] for place, tag in enumerate(segment.tags) if tag.kind == "close"}
    waiting: list[set[str]] = []
    for tag in found:
        if waiting and tag in waiting[-1]:  # ** both opens and closes
            waiting.pop()
        elif tag in closes:
            waiting.append(closes[tag])
        elif tag in is_closing:
            return False
    return not waiting


def find_closing(segment: Segment) -> dict[str, set[str]]:
    """Return a dict from each opening tag to those that may close it; Markdown's [ has several."""
    texts, closes = segment.tag_texts, dict[str, set[str]]()
    for one, other in (find_partners(segment.tags) or {}).items():
        if one < other:
            closes.setdefault(texts[one], set()).add(texts[other])
    return closes


def find_partners(tags: Sequence[Tag]) -> dict[int, int] | None:
    """Return a dict from paired tags' indices to their partners'; None if tags are badly nested."""
    partners: dict[int, int] = {}
    waiting: list[int] = []
    for place, tag in enumerate(tags):
        if tag.kind == "open":
            waiting.append(place)
        elif tag.kind == "close":
            if not waiting or tags[waiting[-1]].key != tag.key:
                return None
            partners[place] = waiting.pop()
            partners[partners[place]] = place
    return None if waiting else partners


# --- where tags go --------------------------------------------------------------------------------


@dataclass
class _Item:
    """A single tag, or a pair of tags with its content, to be placed in a translation."""

    opening: "_Mark"
    pieces: range  # of the source: the pieces inside it; it begins before the first one
    closing: "_Mark | None" = None  # None: a single tag
    inner: list["_Item"] = field(default_factory=list)
    clings_left: bool = False
    place: Span = (0, 0)  # among the target's pieces


class _Mark(NamedTuple):
    """The markup of one tag, and where spaces may stand before and after it."""

    text: str
    spaces: tuple[bool, bool]
    clings: tuple[bool, bool] = (True, True)  # to words; False: only to punctuation
    separates: bool = False  # words, even without a space
    is_single: bool = False


def place_tags(
    plain: PlainText,
    src_words: Sequence[Span],
    translation: str,
    tgt_words: Sequence[Span],
    links: Collection[tuple[int, int]],
) -> str:
    """Insert each of the source's tags into a translation; nest them well if they were before.

    A pair goes around the run of words that best matches those aligned to its content. A single tag
    goes before the word aligned to the source word after it or, if the tag touched the word before
    it, after the word aligned to that. ``links`` are pairs of word indices (source, translation).
    """
    src, tgt = _Pieces.of(plain.text, src_words), _Pieces.of(translation, tgt_words)
    linked: dict[int, set[int]] = {}
    for src_word, tgt_word in links:
        # Link punctuation with punctuation.
        for ours, theirs in zip(src.of_words[src_word], tgt.of_words[tgt_word], strict=True):
            is_same = len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True) if is_same else product(ours, theirs):
                linked.setdefault(one, set()).add(other)
    items = _build_items(plain, src.spans)
    is_nested = find_partners([one.tag for one in plain.tags]) is not None
    layout = _Layout(linked, len(src.spans), len(tgt.spans))
    layout.place(items, (0, len(tgt.spans)), in_order=not is_nested)
    return _write(translation, tgt.spans, _marks(items, (0, len(tgt.spans))))


class _Pieces(NamedTuple):
    """Words, each cut into pieces: signs before its letters, its letters, signs after them."""

    spans: list[Span]
    of_words: list[tuple[range, range, range]]

    @classmethod
    def of(cls, text: str, words: Sequence[Span]) -> "_Pieces":
        pieces = cls([], [])
        for start, end in words:
            letters = [match.span() for match in _LETTERS.finditer(text, start, end)]
            if letters:
                inner = letters[0][0], letters[-1][1]
            else:  # only signs, as in '(<x/>,'; a single sign may stand for a word
                inner = (start, end) if end - start == 1 else (start + 1, end - 1)
            spans = [(start, inner[0]), inner, (inner[1], end)]
            numbers = []
            for number, (first, last) in enumerate(spans):
                width = 1 if number != 1 and last - first <= _MOST_SIGNS else max(1, last - first)
                found = [(at, at + width) for at in range(first, last, width)]
                numbers.append(range(len(pieces.spans), len(pieces.spans) + len(found)))
                pieces.spans.extend(found)
            pieces.of_words.append((numbers[0], numbers[1], numbers[2]))
        return pieces


def _build_items(plain: PlainText, pieces: Sequence[Span]) -> list[_Item]:
    """Return the tags as trees; a pair that contains no words becomes a single tag."""
    partners = find_partners([one.tag for one in plain.tags]) or {}
    stack: list[list[_Item]] = [[]]
    for number, (text, _, at, spaces, words, separates) in enumerate(plain.tags):
        begun = sum(start < at for start, _ in pieces)
        ended = sum(end <= at for _, end in pieces)
        partner = partners.get(number)
        if partner is None:
            single = _single_mark(text, spaces, words, separates)
            clings_left = not spaces[0] and spaces[1] and begun > 0
            stack[-1].append(_Item(single, range(begun, begun), clings_left=clings_left))
        elif partner > number:
            closing = _Mark(plain.tags[partner].text, (False, True))
            item = _Item(_Mark(text, (True, False)), range(ended, ended), closing)
            stack[-1].append(item)
            stack.append(item.inner)
        else:
            stack.pop()
            item = stack[-1][-1]
            item.pieces = range(item.pieces.start, begun)
            if not item.pieces:  # keep its content inside the tag
                first = plain.tags[partner]
                around = (first.spaces[0], spaces[1]), (first.words[0], words[1])
                item.opening = _single_mark(_text_of(item), *around)
                item.closing, item.inner, item.pieces = None, [], range(begun, begun)
    return stack[0]


def _text_of(item: _Item) -> str:
    inside = "".join(map(_text_of, item.inner))
    return f"{item.opening.text}{inside}{item.closing.text if item.closing else ''}"


def _single_mark(
    text: str, spaces: tuple[bool, bool], words: tuple[bool, bool], separates: bool = False
) -> _Mark:
    if _UNSEEN.match(text):
        words = words[0], True  # otherwise words would have a space on both sides of it
    return _Mark(text, spaces, words, separates, is_single=True)


@dataclass(frozen=True)
class _Layout:
    """An algorithm that chooses positions for tags among the ``_Pieces`` of a translation."""

    linked: dict[int, set[int]]
    src_pieces: int
    tgt_pieces: int

    def place(self, items: Sequence[_Item], room: Span, in_order: bool) -> None:
        """Place items among the pieces in ``room``; pairs keep their content and do not overlap."""
        free = set(range(*room))
        for item in items:
            if item.closing is not None:
                item.place = self._find_run(item, room, free)
                free.difference_update(range(*item.place))
                self.place(item.inner, item.place, in_order)
        pairs = [item.place for item in items if item.closing is not None]
        least = room[0]
        for item in items:
            if item.closing is None:
                gap = max(least, self._find_gap(item, room))
                gap = next((end for start, end in pairs if start < gap < end), gap)
                item.place = (gap, gap)
                least = gap if in_order else room[0]

    def _find_run(self, item: _Item, room: Span, free: set[int]) -> Span:
        """Return the run of free pieces that are best aligned to the content of a pair of tags."""
        inside = {place for piece in item.pieces for place in self.linked.get(piece, ())}
        outside = {
            place
            for piece, places in self.linked.items()
            if piece not in item.pieces
            for place in places
        } - inside
        best, best_score = (0, 0), 0
        start, score = room[0], 0
        for place in range(*room):
            if score <= 0 or place not in free:
                start, score = place + (place not in free), 0
            if place in free:
                score += (place in inside) - (place in outside)
                if score > best_score:
                    best, best_score = (start, place + 1), score
        if best_score:
            return best
        guess = min(max(self._proportional(item.pieces.start), room[0]), room[1])
        while guess < room[1] and guess not in free:
            guess += 1
        return guess, min(guess + 1, room[1])

    def _find_gap(self, item: _Item, room: Span) -> int:
        """Return the index of the piece before which a single tag goes."""
        behind = max(self.linked.get(item.pieces.start - 1, ()), default=-1) + 1
        before = min(self.linked.get(item.pieces.start, ()), default=-1)
        if item.clings_left or before < 0:
            before = behind or before
        if item.pieces.start == self.src_pieces:
            before = self.tgt_pieces
        gap = before if before >= 0 else self._proportional(item.pieces.start)
        return min(max(gap, room[0]), room[1])

    def _proportional(self, piece: int) -> int:
        return piece * self.tgt_pieces // max(1, self.src_pieces)


# --- writing --------------------------------------------------------------------------------------


def _marks(items: Sequence[_Item], room: Span) -> Iterator[tuple[int, _Mark]]:
    """Yield each tag as (index of the piece that follows it, markup), in the order of writing."""
    order = sorted(items, key=lambda item: (item.place[0], item.place[0] < item.place[1]))
    for item in order:
        yield item.place[0], item.opening
        if item.closing is not None:
            yield from _marks(item.inner, item.place)
            yield item.place[1], item.closing


def _write(text: str, pieces: Sequence[Span], marks: Iterator[tuple[int, _Mark]]) -> str:
    at = defaultdict[int, list[_Mark]](list)
    for gap, mark in marks:
        at[gap].append(mark)
    edits = []
    ends = [0, *(end for _, end in pieces)]
    starts = [*(start for start, _ in pieces), len(text)]
    for gap, (end, start) in enumerate(zip(ends, starts, strict=True)):
        before = text[end - 1 : end] if gap else None
        after = text[start : start + 1] if gap < len(pieces) else None
        edits.append(Edit(end, start, _write_gap(before, text[end:start], after, at[gap])))
    return splice(text, edits)


def _write_gap(before: str | None, space: str, after: str | None, marks: Sequence[_Mark]) -> str:
    """Return the tags between two pieces, together with the white space that belongs there.

    ``before`` and ``after`` are the adjacent characters; None is the start or end of the text.
    """

    def may_be_spaced(mark: _Mark, side: int, letter: str) -> bool:
        if not space:
            return mark.is_single and mark.spaces[side]
        return mark.spaces[side] or (is_of_word(letter) and not mark.clings[side])

    if not marks:
        return space
    spaced = [before is not None and may_be_spaced(marks[0], 0, before)]
    for left, right in pairwise(marks):
        if space or not (left.is_single or right.is_single):
            spaced.append(may_be_spaced(left, 1, "") and may_be_spaced(right, 0, ""))
        else:  # the space between them was removed with the tags, as in 'a **b** `x`.'
            spaced.append(left.spaces[1] and right.spaces[0])
    spaced.append(after is not None and may_be_spaced(marks[-1], 1, after))
    is_inside = space and before is not None and after is not None
    if is_inside and not any(spaced) and not any(mark.separates for mark in marks):
        # Words must not run together: put a space before an opening tag, or else after all tags.
        opening = (n for n, mark in enumerate(marks) if mark.spaces == (True, False))
        spaced[next(opening, len(marks))] = True
    gaps = [(space or " ") if is_spaced else "" for is_spaced in spaced]
    return gaps[0] + "".join(f"{mark.text}{gap}" for mark, gap in zip(marks, gaps[1:], strict=True))

"""Placeholders of a line, such as '%s', '{name}' or '<b>', and the reserved tokens for them.

A placeholder is the same in a line's translation. Reserved tokens are ids behind a tokenizer's own,
which no text is encoded to: slots stand for placeholders, on both sides. The joiner says that there
is no white space between its neighbours, one of which is a slot. Tags stand before a source, as
data of their kind had them in training. Marks stand around what a translation has to say for a
term, which takes the term's place in a source: 'Ein ⟨term⟩ package ⟨end⟩ fehlt'. Both sides have
all of them, so that vocabularies that were equal stay equal.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby, pairwise
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer_cli.base.errors import TokenizerError, UsageError, did_you_mean, shorten_middle
from transformer_cli.extensions.constraints.protection import (
    GROUPS,
    PlaceholderPattern,
    Protected,
    Protection,
    compile_own,
)
from transformer_cli.extensions.constraints.terms import TermList
from transformer_cli.text.protocol import EncodedSource, Lines, StreamedLines, Tokenizer, Tokenizers
from transformer_cli.text.scripts import has_letters

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 5
"""Processor time that the user's patterns may take in one search of a line."""

SLOTS = 16  # different placeholders of a line that are protected; further ones stay text

# Each pattern takes time linear in the line's length, whatever the line: repetitions are
# possessive, or end at a character that only starts a placeholder.

# C's printf and its relatives: '%s', '%1$s', '%-5.2f', '%(name)s', and Qt's '%1'. No space as flag
# and no digit before, as in '100 % der' and '100%ige'.
_PRINTF = (
    r"%%|(?<!\d)%(?:"
    r"(?:\(\w++\)|\d++\$)?[-+#0']*+(?:\*|\d++)?+(?:\.(?:\*|\d++)?+)?(?:hh|ll|[hlqjztL])?"
    r"[diouxXeEfFgGaAcCsSpnrm@]"
    r"|L?[1-9](?!\d))"
)
# '{}', '{0}', '{name!r:>5}', '{user.name}', '${VAR}', '%{name}', '{{ name }}', '{0,number}'. Not
# ICU's '{n, plural, one {# file} other {# files}}', whose text is to be translated.
_BRACES = (
    r"\{\{[^{}]*+\}\}"
    r"|[$#%]?\{(?:\w*+(?:[.\[][\w.\[\]]*+)?(?:![rsa])?(?::[^{}\s]*+)?|\d++\s*+,[^{}]*+)\}"
)
_NAME = r"[A-Za-z0-9][\w:.-]*+"
_ATTRIBUTE = r"""[\w:.-]++(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++))?"""
_TAGS = (
    rf"</{_NAME}\s*+>|<(?P<opened>{_NAME})(?:\s++{_ATTRIBUTE})*+\s*+/?>"
    r"|&(?:amp|lt|gt|quot|apos|nbsp);"
)
_URLS = (
    r"(?<!\w)(?:(?:https?|ftp|file)://|www\.)"
    r"[^\s<>\"“”„«»‹›`]*[^\s<>\"“”„«»‹›`.,;:!?')\]}…]"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
)
_PATTERNS: dict[Protected, str] = {
    "urls": _URLS,
    "tags": _TAGS,
    "printf": _PRINTF,
    "braces": _BRACES,
}
_SIGNS = ("%", "<", "{", "&", "@", "://", "www.")  # each placeholder of a group has one
_CLOSING = re.compile(rf"</({_NAME})")
# Elements that need no closing tag in their line to be told from '<file>' in 'Usage: cat <file>'.
_INLINE_ELEMENT = re.compile(
    r"a|b|big|br|center|code|em|font|h[1-6]|hr|i|img|kbd|li|ol|p|pre|q|s|small|span|strong"
    r"|su[bp]|tt|ul?",
    re.IGNORECASE,
)


class Placeholder(NamedTuple):
    """What a slot may stand for: its text in a translation, and its place in a line."""

    text: str
    start: int
    end: int


def find_placeholders(line: str, protect: Collection[Protection]) -> list[Placeholder]:
    """Return the placeholders of a line that are protected, from left to right.

    Raises:
        TokenizerError: a user's pattern takes too long.
    """
    placeholders: list[Placeholder] = []
    is_only_groups = not any(isinstance(each, PlaceholderPattern) for each in protect)
    if not protect or (is_only_groups and not any(sign in line for sign in _SIGNS)):
        return placeholders
    pattern, own = _compile(tuple(protect))
    search = _search_by_turns(own, pattern) if own else pattern.search
    closed: set[str] | None = None
    place = 0
    while match := search(line, place):
        has_name = match.re is pattern and "opened" in pattern.groupindex
        opened = match["opened"] if has_name else None
        if opened is not None and "=" not in match[0] and not match[0].endswith("/>"):
            if closed is None:
                closed = {name.lower() for name in _CLOSING.findall(line)}
            if not _INLINE_ELEMENT.fullmatch(opened) and opened.lower() not in closed:
                # '<file>' is text; look for placeholders inside it.
                place = match.start() + 1
                continue
        if match[0]:
            placeholders.append(Placeholder(match[0], *match.span()))
        place = match.end() + (not match[0])  # a pattern of one's own may but look ahead
    return placeholders


def has_words(line: str, protect: Collection[Protection] = ()) -> bool:
    """Return whether a line has letters outside placeholders, of all groups and own patterns.

    Numbers, dates, punctuation, URLs and tags have nothing to translate.
    """
    if not has_letters(line):
        return False
    own = [each for each in protect if isinstance(each, PlaceholderPattern)]
    end = 0
    for _, start, after in find_placeholders(line, (*own, *GROUPS)):
        if has_letters(line[end:start]):
            return True
        end = after
    return has_letters(line[end:])


@cache
def _compile(protect: tuple[Protection, ...]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return the pattern of our groups, and the user's own patterns."""
    own = tuple(each.pattern for each in protect if isinstance(each, PlaceholderPattern))
    ours = "|".join(_PATTERNS[name] for name in _PATTERNS if name in protect)
    return re.compile(ours or "(?!)"), own


_Search = Callable[[str, int], "re.Match[str] | regex.Match[str] | None"]


def _search_by_turns(own: Sequence[str], ours: re.Pattern[str]) -> _Search:
    """Return a search for the leftmost placeholder of one line.

    At the same place, a user's pattern goes first: '%FILE%' is not printf's '%F'.
    """
    end = thread_time() + MAX_SECONDS  # not the process's: other threads translate meanwhile
    searches: list[_Search] = [*(partial(_search_own, pattern, end) for pattern in own)]
    searches.append(ours.search)
    found: list[re.Match[str] | regex.Match[str] | None] = []

    def search(line: str, place: int) -> "re.Match[str] | regex.Match[str] | None":
        if not found:
            found.extend(each(line, place) for each in searches)
        for number, match in enumerate(found):
            if match is not None and match.start() < place:
                found[number] = searches[number](line, place)
        left = (match for match in found if match is not None)
        return min(left, key=lambda match: match.start(), default=None)

    return search


def _search_own(pattern: str, end: float, line: str, place: int) -> "regex.Match[str] | None":
    try:
        return compile_own(pattern).search(line, place, timeout=max(0.01, end - thread_time()))
    except (TimeoutError, MemoryError):  # it may take up to 1 GiB
        raise TokenizerError(
            f"tokenizer.protect: the pattern '{pattern}' takes more than {MAX_SECONDS} s or 1 GiB "
            f"for the line '{shorten_middle(line, 80)}'; simplify it"
        ) from None


def compare_placeholders(src: str, tgt: str, protect: Collection[Protection]) -> str:
    """Return how the placeholders of two lines differ, as in "without '%s', with '% s'".

    Nothing if they are the same. One that is twice in a line has to be twice in the other.
    """
    if not protect:
        return ""
    of_src, of_tgt = (
        Counter(each.text for each in find_placeholders(line, protect)) for line in (src, tgt)
    )
    return ", ".join(
        f"{how} '{text}'"
        for how, texts in (("without", of_src - of_tgt), ("with", of_tgt - of_src))
        for text in texts.elements()
    )


class TextPart(NamedTuple):
    """A part of a line, without the white space around it.

    ``slot`` is the number of the slot that stands for it, from 0; None: it is plain text.
    ``is_joined``: there is no white space between it and the part before.
    """

    text: str
    slot: int | None
    is_joined: bool


def split_parts(
    line: str, placeholders: Sequence[Placeholder], slots: Mapping[str, int]
) -> Iterator[TextPart]:
    """Yield the parts of a line: placeholders that have a slot, and the text between them."""
    is_joined = False
    place = 0
    for found in [*(each for each in placeholders if each.text in slots), None]:
        text = line[place : found.start if found else len(line)]
        if content := text.strip():
            yield TextPart(content, None, is_joined and not text[0].isspace())
        if text:
            is_joined = not text[-1].isspace()
        if found:
            yield TextPart(line[found.start : found.end], slots[found.text], is_joined)
            is_joined, place = True, found.end


class ReservedTokenizer(Tokenizer):
    """A tokenizer with reserved ids behind those of another: joiner, slots, tags, marks of terms.

    ``term_marks``, if any, are before and behind the translation of a term.
    """

    def __init__(
        self, base: Tokenizer, has_slots: bool, tags: Sequence[str], has_terms: bool = False
    ) -> None:
        self._base = base
        self._joiner_id = base.size if has_slots else -1
        first_slot = base.size + 1
        self._slot_ids = range(first_slot, first_slot + SLOTS) if has_slots else range(0)
        first_tag = base.size + (1 + SLOTS if has_slots else 0)
        self.tag_ids = {tag: number for number, tag in enumerate(tags, start=first_tag)}
        slots = ["joiner", *range(1, SLOTS + 1)] if has_slots else []
        marks = ["term", "end"] if has_terms else []
        names = (*slots, *(f"tag {tag}" for tag in tags), *marks)
        self._names = [f"⟨{name}⟩" for name in names]
        self.size = base.size + len(self._names)
        self.term_marks = range(self.size - len(marks), self.size)
        self.source_ids = (*self.tag_ids.values(), *self.term_marks)
        self.is_word_level = base.is_word_level

    @property
    def text_size(self) -> int:
        return self._base.size

    @property
    def reserved_ids(self) -> dict[str, Any]:
        """Ids of the joiner, slots, tags and marks of terms, as far as there are any."""
        tags: dict[str, Any] = {"tags": self.tag_ids} if self.tag_ids else {}
        tags |= {"terms": list(self.term_marks)} if self.term_marks else {}
        slots = {"joiner": self._joiner_id, "slots": list(self._slot_ids)}
        return tags | slots if self._slot_ids else tags

    @property
    def can_sample(self) -> bool:
        return self._base.can_sample

    def encode(self, line: str) -> list[int]:
        """Return the ids of a line as plain text; none is reserved."""
        return self._base.encode(line)

    def mark_terms(self, text: str, terms: TermList) -> tuple[list[int], list[str]]:
        """Return the ids of text with its terms' translations in their place, between marks.

        And a token for each: of a translation, the first is what it stands for in the text, and
        others, as those of marks, are empty.
        """
        found = terms.find(text)
        cuts = [0, *(cut for each in found for cut in (each.start, each.end)), len(text)]
        whole = self._base.encode(text)
        heads = [self._base.encode(text[:cut].rstrip()) for cut in cuts]
        if all(whole[: len(head)] == head for head in heads):
            # Subwords stay what they are without terms, as in training.
            parts = [whole[len(start) : len(end)] for start, end in pairwise(heads)]
        else:
            parts = [self._base.encode(text[start:end]) for start, end in pairwise(cuts)]
        ids: list[int] = []
        tokens: list[str] = []
        for place, part in enumerate(parts):
            own = [self._base.token(number) for number in part]
            if place % 2:
                target = self._base.encode(found[place // 2].term.target)
                before, behind = self.term_marks
                part, own = [before, *target, behind], ["", "".join(own), *[""] * len(target)]
            ids += part
            tokens += own
        return ids, tokens

    def encode_parts(
        self, parts: Iterator[TextPart], terms: TermList | None = None
    ) -> Iterator[tuple[str, list[int]]]:
        """Yield the ids of each part, and of the joiners between them, with their text."""
        is_first = has_space = True
        for part in parts:
            if part.slot is not None:
                ids = [self._slot_ids[part.slot]]
            elif terms is not None:
                ids = self.mark_terms(part.text, terms)[0]
            else:
                ids = self._base.encode(part.text)
            has_space = has_space or not part.is_joined
            if not ids:
                continue
            if not is_first and not has_space:
                yield "", [self._joiner_id]
            yield part.text, ids
            is_first = has_space = False

    def count_slots(self, ids: Sequence[int]) -> Counter[int]:
        """Return how often each slot is among ids, by its number from 0."""
        first = self._slot_ids.start
        return Counter(number - first for number in ids if number in self._slot_ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; slots are written as nothing."""
        return self.detokenize(ids, [])

    def token(self, number: int) -> str:
        size = self._base.size
        return self._base.token(number) if number < size else self._names[number - size]

    def part_tokens(self, text: str, ids: Sequence[int], terms: TermList | None) -> list[str]:
        """Return the tokens of what ``encode_parts`` yields, given the same terms."""
        if ids[0] in self._slot_ids or ids[0] == self._joiner_id:
            return [text]
        if terms is None:
            return self._base.line_tokens(text, ids)
        return self.mark_terms(text, terms)[1]

    def filled_tokens(self, ids: Sequence[int], values: Sequence[str]) -> list[str]:
        filled = dict(zip(self._slot_ids, values, strict=False))
        size = self._base.size
        return [self._base.token(n) if n < size else filled.get(n, "") for n in ids]

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ids; the tokens of slots, if given, are what they are written as.

        Runs of text and slots are joined by spaces, and without where there is the joiner.
        """
        pieces: list[str] = []
        is_joined = True
        for start, end in self._runs(ids):
            piece = ""
            if ids[start] == self._joiner_id:
                is_joined = True
            elif ids[start] >= self._base.size:
                piece = tokens[start] if tokens else ""
            elif tokens:
                piece = self._base.detokenize(ids[start:end], tokens[start:end]).strip()
            else:
                piece = self._base.decode(ids[start:end]).strip()
            if piece:
                pieces += [piece] if is_joined else [" ", piece]
                is_joined = False
        return "".join(pieces)

    def sample(self, sentences: Sequence[list[int]], rate: float, seed: int) -> list[list[int]]:
        cut = [[ids[start:end] for start, end in self._runs(ids)] for ids in sentences]
        texts = [run for runs in cut for run in runs if run[0] < self._base.size]
        sampled = iter(self._base.sample(texts, rate, seed))
        return [
            [n for run in runs for n in (next(sampled) if run[0] < self._base.size else run)]
            for runs in cut
        ]

    def _runs(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield where runs of text begin and end; each reserved id is a run of its own."""
        place = 0
        for is_text, run in groupby(ids, lambda number: number < self._base.size):
            length = sum(1 for _ in run)
            step = length if is_text else 1
            yield from ((start, start + step) for start in range(place, place + length, step))
            place += length


@dataclass(frozen=True)
class ReservedTokenizers(Tokenizers):
    """Both sides' tokenizers, with reserved tokens."""

    src: ReservedTokenizer
    tgt: ReservedTokenizer

    @classmethod
    def of(
        cls,
        tokenizers: Tokenizers,
        protect: Sequence[Protection],
        tags: Sequence[str],
        has_terms: bool = False,
    ) -> "ReservedTokenizers":
        """Add reserved tokens to both sides."""
        src = ReservedTokenizer(tokenizers.src, bool(protect), tags, has_terms)
        tgt = src
        if tokenizers.src is not tokenizers.tgt:
            tgt = ReservedTokenizer(tokenizers.tgt, bool(protect), tags, has_terms)
        return cls(
            src,
            tgt,
            tokenizers.types,
            tuple(protect),
            tuple(tags),
            tokenizers.letterless,
            tokenizers.copied,
        )

    def tag_id(self, name: str) -> int:
        if not self.tags:
            return super().tag_id(name)
        if name not in self.tags:
            hint = did_you_mean(name, self.tags) or ""
            raise UsageError(
                f"no tag '{name}'; {hint}{hint and ' '}known tags: {', '.join(self.tags)}"
            )
        return self.src.tag_ids[name]

    def encode_pair(self, src: str, tgt: str) -> tuple[list[int], list[int]]:
        """Return the ids of a pair; placeholders that are on both sides are slots."""
        of_src, of_tgt = (find_placeholders(line, self.protect) for line in (src, tgt))
        slots = _number(of_src, {each.text for each in of_tgt})
        return (
            _ids(self.src.encode_parts(split_parts(src, of_src, slots))),
            _ids(self.tgt.encode_parts(split_parts(tgt, of_tgt, slots))),
        )

    def has_same_slots(self, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> bool:
        return self.src.count_slots(src_ids) == self.tgt.count_slots(tgt_ids)

    @property
    def has_terms(self) -> bool:
        """Return whether there are marks for the terms of a source."""
        return bool(self.src.term_marks)

    def with_term_slots(self) -> "ReservedTokenizers | None":
        """Return the same with terms in slots, where there are slots as well as marks."""
        if not (self.protect and self.has_terms):
            return None
        src = copy(self.src)
        src.term_marks = range(0)
        return replace(self, src=src)

    def encode_source(self, line: str, terms: TermList | None = None) -> EncodedSource:
        """Return the ids of a source alone; all placeholders are slots.

        Terms' translations stand between marks where there are any, or else are in slots.
        """
        placeholders = self._find_slots(line, terms)
        slots = _number(placeholders)
        inline = terms if self.src.term_marks else None
        ids = _ids(self.src.encode_parts(split_parts(line, placeholders, slots), inline))
        return EncodedSource(ids, tuple(slots))

    def _find_slots(self, line: str, terms: TermList | None) -> list[Placeholder]:
        """Return the placeholders of a source, and the terms if these are slots too."""
        placeholders = find_placeholders(line, self.protect)
        if terms is None or self.src.term_marks:
            return placeholders
        found = terms.find(line, ((start, end) for _, start, end in placeholders))
        of_terms = (Placeholder(term.target, start, end) for term, start, end in found)
        return sorted([*placeholders, *of_terms], key=lambda each: each.start)

    def encode_target(self, line: str, values: Sequence[str]) -> list[int]:
        """Return the ids of a target; placeholders that its source has are slots."""
        slots = {value: number for number, value in enumerate(values)}
        placeholders = find_placeholders(line, self.protect)
        return _ids(self.tgt.encode_parts(split_parts(line, placeholders, slots)))

    def source_tokens(
        self, line: str, ids: Sequence[int], terms: TermList | None = None
    ) -> list[str]:
        """Return the tokens of a source; those of slots are their text in the line.

        Those of tags are empty; for those of terms, see ``mark_terms``.
        """
        placeholders = self._find_slots(line, terms)
        parts = split_parts(line, placeholders, _number(placeholders))
        inline = terms if self.src.term_marks else None
        tokens = (
            token
            for text, part in self.src.encode_parts(parts, inline)
            for token in self.src.part_tokens(text, part, inline)
        )
        tags = frozenset(self.src.tag_ids.values())
        return ["" if number in tags else next(tokens) for number in ids]


def without_slots(
    src: Lines, tgt: Lines, protect: Sequence[Protection], side: int
) -> StreamedLines:
    """Return one side of a text, 0 or 1, without what slots stand for: what is encoded as text."""

    def read() -> Iterator[str]:
        for pair in zip(src, tgt, strict=True):
            of_src, of_tgt = (find_placeholders(line, protect) for line in pair)
            slots = _number(of_src, {each.text for each in of_tgt})
            parts = split_parts(pair[side], (of_src, of_tgt)[side], slots)
            yield " ".join(part.text for part in parts if part.slot is None)

    return StreamedLines(read, len(src))


def _number(
    placeholders: Sequence[Placeholder], among: Collection[str] | None = None
) -> dict[str, int]:
    """Return the slots of different placeholders, by first appearance; of those in ``among``."""
    texts = (each.text for each in placeholders if among is None or each.text in among)
    return {text: number for number, text in enumerate(list(dict.fromkeys(texts))[:SLOTS])}


def _ids(parts: Iterator[tuple[str, list[int]]]) -> list[int]:
    return [number for _, ids in parts for number in ids]

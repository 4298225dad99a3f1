"""Placeholders in a line, e.g. '%s', '{name}' or '<b>', and the reserved tokens for them.

A placeholder is the same in a line and its translation. Reserved tokens have ids after a
tokenizer's own ids; no text is encoded as one. Slots are tokens for placeholders, on both sides.
The joiner token means that no whitespace is between a slot and its neighbour. A tag token stands
before a source sentence, as in training data of the same kind. Both languages have all reserved
tokens, so that equal vocabularies stay equal.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from transformer_cli.base.errors import UsageError, did_you_mean
from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.constraints.placing import Placing
from transformer_cli.extensions.constraints.search_again import ReservedReviser
from transformer_cli.extensions.constraints.terms import FoundTerm, Term, TermList, lost_terms
from transformer_cli.extensions.corpora.tagged_line import TaggedLine
from transformer_cli.extensions.verbatim.verbatim_parts import Group, VerbatimPart, find_verbatim
from transformer_cli.inference.translation import Reviser
from transformer_cli.text.lines import has_words
from transformer_cli.text.protocol import EncodedSource, Lines, StreamedLines, Tokenizer, Tokenizers

SLOTS = 16  # protected placeholders in a line, without repetitions; further ones stay text


class TextPart(NamedTuple):
    """A placeholder in a line, or text between placeholders, without the whitespace around it.

    ``slot`` is the number (from 0) of the slot token for the part, or None for plain text.
    ``is_joined`` says that there is no whitespace between this part and the part before.
    """

    text: str
    slot: int | None
    is_joined: bool


def split_parts(
    line: str, placeholders: Sequence[VerbatimPart], slots: Mapping[str, int]
) -> Iterator[TextPart]:
    """Yield the parts of a line: the placeholders in ``slots``, and the text between them."""
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
    """A tokenizer that adds reserved ids to another's: for joiner, slots and tags."""

    def __init__(self, base: Tokenizer, has_slots: bool, tags: Sequence[str]) -> None:
        self._base = base
        slots = ["joiner", *range(1, SLOTS + 1)] if has_slots else []
        first_tag = base.size + len(slots)
        self._joiner_id = base.size if has_slots else -1
        self._slot_ids = range(base.size + 1, first_tag)
        self.tag_ids = {tag: number for number, tag in enumerate(tags, start=first_tag)}
        self._names = [f"⟨{name}⟩" for name in (*slots, *(f"tag {tag}" for tag in tags))]
        self.size = base.size + len(self._names)
        self.source_ids = tuple(self.tag_ids.values())
        self.is_word_level = base.is_word_level

    @property
    def text_size(self) -> int:
        return self._base.size

    @property
    def reserved_ids(self) -> dict[str, Any]:
        tags: dict[str, Any] = {"tags": self.tag_ids} if self.tag_ids else {}
        slots = {"joiner": self._joiner_id, "slots": list(self._slot_ids)}
        return tags | slots if self._slot_ids else tags

    @property
    def sentencepiece_model(self) -> bytes | None:
        return self._base.sentencepiece_model

    def encode(self, line: str) -> list[int]:
        return self._base.encode(line)

    def encode_parts(self, parts: Iterator[TextPart]) -> Iterator[tuple[str, list[int]]]:
        """Yield each part's text and ids, and '' with the joiner's id where a joiner is needed."""
        has_space = True
        for part in parts:
            if part.slot is not None:
                ids = [self._slot_ids[part.slot]]
            else:
                ids = self._base.encode(part.text)
            has_space = has_space or not part.is_joined
            if not ids:
                continue
            if not has_space:
                yield "", [self._joiner_id]
            yield part.text, ids
            has_space = False

    def count_slots(self, ids: Sequence[int]) -> Counter[int]:
        """Count how often each slot occurs among ids; keys are slot numbers, from 0."""
        first = self._slot_ids.start
        return Counter(number - first for number in ids if number in self._slot_ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self.detokenize(ids, [])

    def token(self, number: int) -> str:
        size = self._base.size
        return self._base.token(number) if number < size else self._names[number - size]

    def part_tokens(self, text: str, ids: Sequence[int]) -> list[str]:
        """Return the tokens of a part that ``encode_parts`` has encoded."""
        if ids[0] in self._slot_ids or ids[0] == self._joiner_id:
            return [text]
        return self._base.line_tokens(text, ids)

    def filled_tokens(self, ids: Sequence[int], values: Sequence[str]) -> list[str]:
        filled = dict(zip(self._slot_ids, values, strict=False))
        size = self._base.size
        return [self._base.token(n) if n < size else filled.get(n, "") for n in ids]

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ids. If ``tokens`` is not empty, a slot's text is its token.

        Runs of text ids and slots are joined with spaces, or directly where there is a joiner.
        """
        size = self._base.size
        # Each reserved id is a run by itself.
        cuts = [place for place in range(1, len(ids)) if max(ids[place - 1], ids[place]) >= size]
        bounds = [0, *cuts, len(ids)] if ids else []
        pieces: list[str] = []
        is_joined = True
        for start, end in pairwise(bounds):
            piece = ""
            if ids[start] == self._joiner_id:
                is_joined = True
            elif ids[start] >= size:
                piece = tokens[start] if tokens else ""
            elif tokens:
                piece = self._base.detokenize(ids[start:end], tokens[start:end]).strip()
            else:
                piece = self._base.decode(ids[start:end]).strip()
            if piece:
                pieces += [piece] if is_joined else [" ", piece]
                is_joined = False
        return "".join(pieces)


@dataclass(frozen=True)
class ReservedTokenizers(Tokenizers):
    """The tokenizers of both languages, with reserved tokens.

    ``protect`` lists the groups of placeholders that slots stand for. ``tag`` is put before each
    source sentence, and translations must use ``terms``; either may be None.
    """

    src: ReservedTokenizer
    tgt: ReservedTokenizer
    protect: tuple[Group, ...] = ()
    tag: str | None = None
    terms: TermList | None = None

    @classmethod
    def of(
        cls, tokenizers: Tokenizers, protect: Sequence[Group], tags: Sequence[str]
    ) -> "ReservedTokenizers":
        """Return both languages' tokenizers with reserved tokens added."""
        src = ReservedTokenizer(tokenizers.src, bool(protect), tags)
        tgt = src
        if tokenizers.src is not tokenizers.tgt:
            tgt = ReservedTokenizer(tokenizers.tgt, bool(protect), tags)
        return cls(src, tgt, tokenizers.letterless, tokenizers.copied, tuple(protect))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.src.tag_ids)

    @property
    def reserved(self) -> dict[str, tuple[str, str]]:
        found = {}
        if self.protect:
            found["placeholders (protect)"] = ("tokenizer.protect", "train with []")
        if self.tags:
            found["tags"] = (f"tag {self.tags[0]}", "train without a 'tag' in the sources")
        return found

    @property
    def fingerprint(self) -> dict[str, str]:
        tag = {} if self.tag is None else {"tag": self.tag}
        return tag if self.terms is None else {**tag, "terms": self.terms.sha256}

    def tag_id(self, tag: str) -> int:
        """Return the id of a tag; raise UsageError if there is no such tag."""
        if not self.tags:
            super().tagged(tag)
        if tag not in self.tags:
            hint = did_you_mean(tag, self.tags) or ""
            raise UsageError(
                f"no tag '{tag}'; {hint}{hint and ' '}known tags: {', '.join(self.tags)}"
            )
        return self.src.tag_ids[tag]

    def tagged(self, tag: str) -> "ReservedTokenizers":
        self.tag_id(tag)
        return replace(self, tag=tag)

    def _start(self, line: str) -> tuple[int, ...]:
        own = line.tag if isinstance(line, TaggedLine) else None
        tag = own or self.tag
        return () if tag is None else (self.tag_id(tag),)

    def encode_pairs(
        self, src: Sequence[str], tgt: Sequence[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        src_ids, tgt_ids = [], []
        for pair in zip(src, tgt, strict=True):
            of_src, of_tgt = _split_pair(*pair, self.protect)
            src_ids.append([*self._start(pair[0]), *_ids(self.src.encode_parts(of_src))])
            tgt_ids.append(_ids(self.tgt.encode_parts(of_tgt)))
        return src_ids, tgt_ids

    def encode_source(self, line: str) -> EncodedSource:
        """Encode a source line whose target is not known, with all placeholders as slots."""
        parts, slots = self._split_source(line)
        ids = _ids(self.src.encode_parts(parts))
        return EncodedSource(line, ids, tuple(slots), self._start(line))

    def _split_source(self, line: str) -> tuple[Iterator[TextPart], dict[str, int]]:
        found = find_verbatim(line, self.protect)
        slots = _number(found)
        return split_parts(line, found, slots), slots

    def encode_prefix(self, prefix: str, source: EncodedSource) -> list[int]:
        slots = {value: number for number, value in enumerate(source.values)}
        placeholders = find_verbatim(prefix, self.protect)
        return _ids(self.tgt.encode_parts(split_parts(prefix, placeholders, slots)))

    def source_tokens(self, source: EncodedSource, ids: Sequence[int]) -> list[str]:
        """Return the tokens of an encoded source line; a slot's token is its text in the line.

        The token of a tag is ''.
        """
        parts = self.src.encode_parts(self._split_source(source.line)[0])
        tokens = (token for text, part in parts for token in self.src.part_tokens(text, part))
        tags = frozenset(self.src.tag_ids.values())
        return ["" if number in tags else next(tokens) for number in ids]

    def has_words(self, line: str) -> bool:
        """Return whether a line has terms, or letters outside placeholders."""
        return has_words(line) or bool(self.find_lost(line, "")[0])

    def find_lost(
        self, src: str, tgt: str, left_out: Iterable[tuple[int, int]] = ()
    ) -> tuple[int, list[Term]]:
        """Return how many terms a source line has, and which of them its translation lacks.

        Terms inside placeholders or ``left_out`` spans do not count.
        """
        found = self.find_terms(src, left_out)
        return len(found), lost_terms([each.term for each in found], tgt)

    def find_terms(self, src: str, left_out: Iterable[tuple[int, int]] = ()) -> list[FoundTerm]:
        """Return the terms in a source line, in order; see ``find_lost``."""
        if self.terms is None:
            return []
        spans = ((start, end) for _, start, end in find_verbatim(src, self.protect))
        return self.terms.find(src, (*spans, *left_out))

    @property
    def revisers(self) -> tuple[Reviser, ...]:
        places_terms = [Placing(self)] if self.terms is not None else []
        return (*super().revisers, ReservedReviser(self), *places_terms)

    def count_losses(self, src: str, tgt: str) -> tuple[int, ...]:
        differs = bool(compare_placeholders(src, tgt, self.protect))
        return differs, len(self.find_lost(src, tgt)[1])


def with_terms(tokenizers: Tokenizers, terms: TermList) -> "ReservedTokenizers":
    """Return tokenizers that put ``terms`` into translations."""
    if isinstance(tokenizers, ReservedTokenizers):
        return replace(tokenizers, terms=terms)
    plain, kind = ReservedTokenizers.of(tokenizers, (), ()), type(tokenizers)
    if kind is Tokenizers:
        return replace(plain, terms=terms)
    # Keep what other codecs do.
    made: type[ReservedTokenizers] = type(kind.__name__, (kind, ReservedTokenizers), {})
    return made(**{**vars(plain), "terms": terms})


def protected_by(tokenizers: Tokenizers) -> tuple[Group, ...]:
    """Return the groups of placeholders for which the tokenizers have slots."""
    return tokenizers.protect if isinstance(tokenizers, ReservedTokenizers) else ()


def without_slots(src: Lines, tgt: Lines, protect: Sequence[Group], side: int) -> StreamedLines:
    """Return one side (0: source, 1: target) of a text without placeholders that become slots."""

    def read() -> Iterator[str]:
        for pair in zip(src, tgt, strict=True):
            parts = _split_pair(*pair, protect)[side]
            yield " ".join(part.text for part in parts if part.slot is None)

    return StreamedLines(read, len(src))


def _split_pair(
    src: str, tgt: str, protect: Sequence[Group]
) -> tuple[Iterator[TextPart], Iterator[TextPart]]:
    """Return the parts of a source and its target; placeholders that both have become slots."""
    of_src, of_tgt = (find_verbatim(line, protect) for line in (src, tgt))
    slots = _number(of_src, {each.text for each in of_tgt})
    return split_parts(src, of_src, slots), split_parts(tgt, of_tgt, slots)


def _number(
    placeholders: Sequence[VerbatimPart], among: Collection[str] | None = None
) -> dict[str, int]:
    """Number placeholders in order of appearance; leave out those not in ``among``, if given."""
    texts = (each.text for each in placeholders if among is None or each.text in among)
    return {text: number for number, text in enumerate(list(dict.fromkeys(texts))[:SLOTS])}


def _ids(parts: Iterator[tuple[str, list[int]]]) -> list[int]:
    return [number for _, ids in parts for number in ids]

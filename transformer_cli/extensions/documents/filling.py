"""Translates a document's segments, keeps their tags and placeholders, and checks the result."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.constraints.terms import describe_kept
from transformer_cli.extensions.documents.document import (
    Document,
    Filling,
    Match,
    Part,
    Segment,
    Tag,
    element_name,
    pair_tags,
    trim,
)
from transformer_cli.extensions.documents.inline import (
    PlainText,
    are_tags_kept,
    find_partners,
    place_tags,
)
from transformer_cli.extensions.documents.sentences import (
    JoinedTranslation,
    LineTranslator,
    translate_texts,
)
from transformer_cli.extensions.revision.lost_numbers import loses_numbers
from transformer_cli.extensions.verbatim.verbatim_parts import Group, find_verbatim

_MAX_TAGS = 200  # of a segment; placing them takes time proportional to tags times words
_MAX_ATTEMPTS = 30  # at filling a document without changing its structure
_SHOWN = 300  # characters shown of a place and its problem
_FORMS = re.compile(r"\{\s*+\w++\s*+,\s*+(?:plural|select|selectordinal)\s*+,")
_SHORTCUT = re.compile(
    r"\t(?:(?:[^\W\d_]{1,12}+ ?\+ ?){1,4}+(?:Page (?:Up|Down)|\S{1,12})"
    r"|F\d\d?|Del(?:ete)?|Ins(?:ert)?|Esc|Enter)\s*\Z"
)
"""A key at the end of a menu label, as in 'Save\tCtrl+S'."""
_QUOTES = {'"': '"', "'": "'", "„": "“", "“": "”", "»": "«", "«": "»", "‘": "’", "`": "'"}
_QUOTES |= {"<": ">", "(": ")", "[": "]"}


@dataclass
class Filled:
    """A document with its segments' translations, and with a list of texts not translated."""

    document: Document  # as it was read
    fillings: list[Filling | None]  # one per segment; None: it was not filled
    left: list[str]  # the locations of untranslated texts, with reasons
    data: bytes = b""  # the filled document
    terms: int = 0  # number of terms in the segments
    lost: list[str] = field(default_factory=list)
    """Terms that are missing from translations, each with its location."""
    is_calibrated: bool = False  # whether confidences are estimated probabilities

    def pairs(self) -> Iterator[tuple[Segment, Filling]]:
        """Yield each segment that has a translation, with its ``Filling``."""
        for segment, filling in zip(self.document.segments, self.fillings, strict=True):
            if filling is not None:
                yield segment, filling

    def summary(self) -> list[str]:
        """Return lines for the user: what was translated, and where a review is needed."""
        pairs = list(self.pairs())
        recalled = sum(one.origin == "memory" for _, one in pairs)
        aligned = sum(one.is_aligned for _, one in pairs)
        of_these = [f"{recalled:,} from the memory"] if recalled else []
        if aligned:
            of_these.append(f"{aligned:,} with tags or accelerators placed by alignments")
        how = f" ({', '.join(of_these)})" if of_these else ""
        lines = [f"filled {len(pairs):,} of {len(pairs) + len(self.left):,} segments{how}"]
        if self.terms:
            first = f"; first lost: {self.lost[0]}" if self.lost else ""
            lines.append(f"{describe_kept(self.terms, len(self.lost))}{first}")
        differing = [f"{segment.place}: {one.problem}" for segment, one in pairs if one.problem]
        doubtful = [(segment, one) for segment, one in pairs if one.doubts and not one.problem]
        found = {
            "placeholders differ in": differing,
            "numbers of the source are missing in": [
                s.place for s, one in pairs if one.loses_numbers
            ],
            "doubtful": [f"{segment.place}: {one.doubts[0]}" for segment, one in doubtful],
            "not filled:": self.left,
        }
        for what, places in found.items():
            if places:
                lines.append(f"{what} {len(places):,}; first: {places[0][:_SHOWN]}")
        return lines


def fill(document: Document, how: LineTranslator) -> Filled:
    """Translate a document's segments: from the memory if it has the text, else with the model.

    Tags are translated with their segment or, if one would be lost, placed by word alignments.
    """
    segments = document.segments
    matches = how.find_matches([segment.text for segment in segments])
    fillings = [
        match and _recall(segment, match, document.encoding, how)
        for segment, match in zip(segments, matches, strict=True)
    ]
    filled = Filled(document, fillings, list(document.left))
    cores = {n: _Core.of(segment, how) for n, segment in enumerate(segments) if not fillings[n]}
    for place, translated in _translate_cores(cores, how).items():
        core, text, match = cores[place], translated.text, matches[place]
        problem = _find_problem(core, text, document.encoding, how)
        mean = translated.log_probability / translated.tokens if translated.tokens else None
        if translated.doubts and not how.fills_doubtful:
            problem = problem or f"doubtful, {translated.doubts[0]}"
        if problem:
            if not text and translated.doubts:
                problem = translated.doubts[0]
            filled.left.append(f"{segments[place].place}: {problem}")
            continue
        fillings[place] = Filling(
            f"{core.lead}{text}{core.trail}",
            comment=f"{match.percent} %: {match.src} = {match.tgt}" if match else "",
            problem=compare_placeholders(core.segment.text, text, how.placeholders),
            match=match,
            confidence=None if mean is None else how.estimate(mean),
            coverage=translated.coverage if how.aligns_all else None,
            doubts=translated.doubts,
            is_aligned=translated.is_aligned,
            loses_numbers=loses_numbers(core.segment.plain, "".join(core.segment.split(text)[::2])),
        )
    filled.data = _write_without_breaking(filled)
    return filled


def _write_without_breaking(filled: Filled) -> bytes:
    """Return the document with its translations, except any that would change its structure."""
    document, fillings = filled.document, filled.fillings
    for attempt in range(_MAX_ATTEMPTS):
        expected = document.structure(fillings)
        data = document.write(fillings)
        try:
            found = document.read_again(data).structure()
        except InputError as error:
            raise InputError(f"{error} in the filled document, so it is not written") from error
        places = _places_of_new(expected, found) or _places_of_new(found, expected)
        if not places:
            return data
        parts = [n for n, part in enumerate(expected) if any(fillings[k] for k in part.segments)]
        if not parts:
            break
        # One difference may hide all later ones, so trust only the first ones.
        for part in {near for place in places[: 1 << attempt] for near in _nearest(place, parts)}:
            for number in expected[part].segments:
                if fillings[number]:
                    fillings[number] = None
                    place = document.segments[number].place
                    filled.left.append(
                        f"{place}: its translation would change the file's structure"
                    )
    raise InputError(
        f"{document.name}: filling it would change the file's structure, so nothing is written"
    )


def _places_of_new(parts: Sequence[Part], others: Sequence[Part]) -> list[int]:
    """Return the indices of ``parts`` whose shapes do not occur in ``others``."""
    shapes = {part.shape for part in others}
    return [place for place, part in enumerate(parts) if part.shape not in shapes]


def _nearest(place: int, places: Sequence[int]) -> list[int]:
    """Return the number in the sorted ``places`` nearest to ``place``, or two if they tie."""
    at = bisect_left(places, place)
    near = places[max(0, at - 1) : at + 1]
    least = min(abs(one - place) for one in near)
    return [one for one in near if abs(one - place) == least]


def _recall(segment: Segment, match: Match, encoding: str, how: LineTranslator) -> Filling | None:
    """Return the memory's translation of a segment if it can be used unchanged, else None."""
    text, source = match.tgt, segment.text
    # A memory's texts are single lines, so a list or usage message would run together.
    if match.percent < 100 or "\n" in source.strip():
        return None
    if compare_placeholders(source, text, how.placeholders):
        return None
    if segment.is_ambiguous or not are_tags_kept(segment, text) or not _fits(text, encoding):
        return None
    start, end = trim(source)
    return Filling(f"{source[:start]}{text}{source[end:]}", origin="memory", match=match)


def _translate_cores(
    cores: Mapping[int, "_Core"], how: LineTranslator
) -> dict[int, JoinedTranslation]:
    """Translate segments without their outer tags and spaces; return a dict with the same keys."""
    done: dict[int, JoinedTranslation] = {}
    corrected = {}
    for place, core in cores.items():
        segment = core.segment
        if not (core.with_placeholders.has_letters or how.translates_numbers):
            done[place] = JoinedTranslation(segment.text)
        elif segment.tags and how.is_corrected(segment.text):
            corrected[place] = segment.text
    for place, one in translate_texts(corrected, how, False).items():
        if are_tags_kept(cores[place].segment, one.text):  # a correction has its own tags
            done[place] = one
    rest = {place: core for place, core in cores.items() if place not in done}
    whole = {place: core.marked for place, core in rest.items() if core.can_stay_whole(how)}
    drafts = translate_texts(whole, how, how.aligns_all and how.can_align)
    for place, draft in drafts.items():
        draft.text = rest[place].unmark(draft.text)
        if rest[place].keeps_all(draft.text):
            done[place] = draft
    if how.can_align:
        plain = {
            place: PlainText.of(core.with_placeholders)
            for place, core in rest.items()
            if place not in done and core.can_be_aligned
        }
        texts = {place: one.text for place, one in plain.items()}
        for place, one in translate_texts(texts, how, True, how.placeholders).items():
            done[place] = one
            if one.text:  # tags alone would look like a translation
                source = plain[place]
                one.text = place_tags(source, one.src_words, one.text, one.tgt_words, one.links)
                one.is_aligned = bool(rest[place].segment.tags)
    return {place: done.get(place, drafts.get(place, JoinedTranslation(""))) for place in cores}


def _find_problem(core: "_Core", text: str, encoding: str, how: LineTranslator) -> str:
    """Return why a segment cannot get this translation, or '' if it can."""
    if core.is_crowded:
        return f"more than {_MAX_TAGS} tags"
    if core.segment.is_ambiguous:
        return "has text that looks like one of its tags"
    if _FORMS.search(core.segment.text):
        return "is an ICU message with forms, which are not translated"
    if not are_tags_kept(core.segment, text):
        why = "" if how.can_align else " because --engine ctranslate2 aligns no words"
        return f"its tags would be lost{why}"
    if core.with_placeholders.has_letters and not text.strip():
        return "the translation is empty"
    if not _fits(text, encoding):
        return f"its translation has characters that are not in {encoding}; convert it to UTF-8"
    return ""


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeError:
        return False
    return True


# --- one segment ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Core:
    """A segment without the white space and tags at its ends, which stay where they are."""

    lead: str
    segment: Segment
    trail: str
    placeholders: Collection[Group]

    @classmethod
    def of(cls, segment: Segment, how: LineTranslator) -> "_Core":
        text, tags = segment.text, list(segment.tags)
        start, end = 0, len(text)
        shortcut = _SHORTCUT.search(text)
        if shortcut and (not tags or tags[-1].end <= shortcut.start()):
            end = shortcut.start()
        partners = find_partners(tags) or {}
        first, last = 0, len(tags) - 1
        while len(tags) <= _MAX_TAGS:
            # White space may be inside a tag, at its start or end.
            before = text[start : tags[first].start if first <= last else end]
            start += len(before) - len(before.lstrip())
            after = text[tags[last].end if first <= last else start : end]
            end -= len(after) - len(after.rstrip())
            at_start = first <= last and tags[first].start == start
            at_end = first <= last and tags[last].end == end
            if at_start and at_end and partners.get(first) == last:
                start, end = tags[first].end, tags[last].start
                first, last = first + 1, last - 1
            # Reserved ids for tags place a tag best, because it may stand for a word.
            elif at_start and first not in partners and "tags" not in how.protect:
                start, first = tags[first].end, first + 1
            elif at_end and last not in partners and "tags" not in how.protect:
                end, last = tags[last].start, last - 1
            else:
                break
        moved = tuple(
            tag._replace(start=tag.start - start, end=tag.end - start)
            for tag in tags[first : last + 1]
        )
        core = replace(segment, text=text[start:end], tags=moved)
        return cls(text[:start], core, text[end:], how.placeholders)

    @property
    def is_crowded(self) -> bool:
        """Whether the segment has too many tags to be translated."""
        return len(self.segment.tags) > _MAX_TAGS

    def can_stay_whole(self, how: LineTranslator) -> bool:
        """Return whether the text may be translated together with its tags."""
        may_be_marked = not self.is_crowded and not self.segment.is_ambiguous
        return not self.segment.tags or ("tags" in how.protect and may_be_marked)

    @property
    def can_be_aligned(self) -> bool:
        """Whether word alignments may place tags that were taken out before translation."""
        return len(self.with_placeholders.tags) <= _MAX_TAGS and not self.segment.is_ambiguous

    @property
    def _marks(self) -> list[str]:
        return [f'<x id="{number}"/>' for number in range(len(self.segment.tags))]

    @property
    def marked(self) -> str:
        """The text with tags replaced by '<x id="0"/>' etc., which count as placeholders."""
        parts = self.segment.split(self.segment.text)
        parts[1::2] = self._marks
        return "".join(parts)

    def unmark(self, text: str) -> str:
        """Return a translation of ``marked`` with the original tags restored."""
        tags = dict(zip(self._marks, self.segment.tag_texts, strict=True))
        return re.sub(r'<x id="\d+"/>', lambda mark: tags.get(mark[0], mark[0]), text)

    def keeps_all(self, text: str) -> bool:
        """Return whether a translation has all tags and placeholders."""
        is_same = not compare_placeholders(self.segment.text, text, self.placeholders)
        return is_same and are_tags_kept(self.segment, text)

    @cached_property
    def with_placeholders(self) -> Segment:
        """The segment with placeholders as tags, too; a single tag includes quotes around it."""
        segment, tags = self.segment, list(self.segment.tags)
        for start, end in segment.gaps:
            found = find_verbatim(segment.text[start:end], self.placeholders)
            spans = ((start + at, start + to, element_name(written)) for written, at, to in found)
            tags += [tag._replace(key=f"text {start} {tag.key}") for tag in pair_tags(spans)]
        return replace(segment, tags=tuple(_with_quotes(sorted(tags), segment.text)))


def _with_quotes(tags: Sequence[Tag], text: str) -> Iterator[Tag]:
    """Yield the tags; extend each single tag over the quotation marks or brackets around it."""
    reached = 0
    for tag, limit in zip(tags, [*(tag.start for tag in tags[1:]), len(text)], strict=False):
        start, end = tag.start, tag.end
        is_free = reached < start and end < limit and tag.kind == "alone"
        if is_free and _QUOTES.get(text[start - 1]) == text[end]:
            tag = tag._replace(start=start - 1, end=end + 1)
        yield tag
        reached = tag.end

"""Translates texts sentence by sentence: sentencex cuts them, and the translations are joined."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from transformer_cli.base.packages import import_extra
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.documents.document import Match, join_lines, trim, without_controls
from transformer_cli.extensions.documents.inline import Span
from transformer_cli.extensions.revision.doubts import doubt_of
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS, Group, find_verbatim
from transformer_cli.inference.translation import Translation

_WRAPPED = 50  # shortest line whose sentence may continue in the next line
_MOST_CHARACTERS = 4000  # length of text given to sentencex at a time
_HARD_BREAK = re.compile(rf"\n(?=\s|\W\s|$)|(?<!.{{{_WRAPPED}}})\n")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class LineTranslator:
    """The functions and settings with which ``fill`` translates segments."""

    translate: Callable[[Sequence[str], bool], Sequence[Translation]]
    """Translates lines; the second argument says whether to align their words."""
    src_lang: str  # language of the segments
    protect: Collection[Group] = ()  # kinds of placeholders that the tokenizer has ids for
    can_align: bool = True  # whether ``translate`` aligns words
    aligns_all: bool = False  # whether to align even where no tag needs it, to measure coverage
    find_matches: Callable[[Sequence[str]], Sequence[Match | None]] = lambda texts: (
        [None] * len(texts)
    )
    """Returns, for each text, the most similar pair in the translation memory, or None."""
    fills_doubtful: bool = True  # whether to fill segments with doubtful translations
    translates_numbers: bool = False  # as well as words; see ``TextStats.letterless``
    estimate: Callable[[float], float] = math.exp
    """Returns the confidence in a translation, given the mean log-probability of its tokens."""
    is_corrected: Callable[[str], bool] = lambda text: False
    """Returns whether a text has a correction as a whole, so that it is not cut into sentences."""

    @property
    def placeholders(self) -> tuple[Group, ...]:
        """The kinds of placeholders that must not change, with or without ids in the tokenizer."""
        return (*(own for own in self.protect if own not in GROUPS), *GROUPS)


@dataclass
class JoinedTranslation:
    """A text's translation, joined from translated sentences, with word spans and alignments."""

    text: str
    src_words: list[Span] = field(default_factory=list)
    tgt_words: list[Span] = field(default_factory=list)
    links: set[tuple[int, int]] = field(default_factory=set)
    log_probability: float = 0.0
    tokens: int = 0
    doubts: tuple[str, ...] = ()
    is_aligned: bool = False

    @property
    def coverage(self) -> float | None:
        """Fraction of source words aligned to a translated word; None if none are aligned."""
        return len({src for src, _ in self.links}) / len(self.src_words) if self.links else None


def cut_sentences(text: str, language: str) -> list[Span]:
    """Return the spans of a text's sentences, without the white space between sentences.

    A line break ends a sentence unless the line is long enough to have been wrapped.
    """
    spans, start = [], 0
    for end in [*(match.start() for match in _HARD_BREAK.finditer(text)), len(text)]:
        for first, last in _cut_line(text[start:end], language):
            span = trim(text, start + first, start + last)
            if span[0] < span[1]:
                spans.append(span)
        start = end
    return spans


def _cut_line(line: str, language: str) -> Iterator[Span]:
    """Yield the spans of a line's sentences; cut a very long sentence between words.

    Sentencex gets only a part of the line at a time, because its running time grows with the square
    of the length, and no signal can stop it.
    """
    sentencex = import_extra("sentencex", "documents", "sentences")
    start = 0
    while start < len(line):
        part = line[start : start + _MOST_CHARACTERS]
        found = sentencex.get_sentence_boundaries(base_language(language), part)
        cuts = [each["end_index"] for each in found if each["end_index"] < len(part)]
        if start + len(part) == len(line):
            cuts.append(len(part))
        else:  # the text after it, for example ')', may move the last ends of sentences
            early = [cut for cut in cuts if cut <= _MOST_CHARACTERS // 2]
            cuts = early or cuts[:1] or [part.rfind(" ") + 1 or len(part)]
        for first, last in pairwise((0, *cuts)):
            yield start + first, start + last
        start += cuts[-1]


def translate_texts(
    texts: Mapping[int, str],
    how: LineTranslator,
    aligned: bool,
    invented: Collection[Group] = (),
) -> dict[int, JoinedTranslation]:
    """Translate each text sentence by sentence; return the translations with the same keys.

    The white space between sentences stays. The texts have no placeholders of the kinds
    ``invented``; any in translations become words.
    """
    cut = cut_texts(texts.values(), how.src_lang, how.is_corrected)
    lines = list_sentences(cut)
    found = dict(zip(lines, how.translate(lines, aligned), strict=True))
    return {key: join_sentences(text, cut[text], found, invented) for key, text in texts.items()}


def cut_texts(
    texts: Iterable[str], language: str, is_corrected: Callable[[str], bool]
) -> dict[str, list[Span]]:
    """Return the spans of each text's sentences; a corrected text is one sentence."""
    return {
        text: [trim(text)] if is_corrected(text) else cut_sentences(text, language)
        for text in texts
    }


def list_sentences(cut: Mapping[str, Sequence[Span]]) -> list[str]:
    """Return the different sentences of texts, each on a line; ``cut`` has the texts' spans."""
    return [*dict.fromkeys(join_lines(text[slice(*span)]) for text in cut for span in cut[text])]


def join_sentences(
    text: str,
    spans: Sequence[Span],
    found: Mapping[str, Translation],
    invented: Collection[Group] = (),
) -> JoinedTranslation:
    """Join the translations of a text's sentences, given their spans; see ``translate_texts``."""
    sentences = [found[join_lines(text[slice(*span)])] for span in spans]
    joined = JoinedTranslation("")
    joined.doubts = tuple(filter(None, dict.fromkeys(map(doubt_of, sentences))))
    if not all(each.text for each in sentences):
        return joined  # half of a text would mislead
    whole, end = "", 0
    for span, translated in zip(spans, sentences, strict=True):
        whole += text[end : span[0]]
        src, tgt = len(joined.src_words), len(joined.tgt_words)
        joined.links |= {(src + one, tgt + other) for one, other in translated.alignment}
        joined.src_words += [match.span() for match in _WORD.finditer(text, *span)]
        # Keep the number of words, because alignments count them.
        written = without_controls(translated.text)
        for _, start, end in reversed(find_verbatim(written, invented)):
            plain = _WORD.sub(lambda word: re.sub(r"\W", "", word[0]) or "-", written[start:end])
            written = written[:start] + plain + written[end:]
        at = len(whole)
        whole += written
        joined.tgt_words += [match.span() for match in _WORD.finditer(whole, at)]
        end = span[1]
    joined.text = whole + text[end:]
    joined.log_probability = sum(each.log_probability for each in sentences)
    joined.tokens = sum(each.tokens for each in sentences)
    return joined

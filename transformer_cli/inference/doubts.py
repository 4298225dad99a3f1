"""Doubtful translations: a neural model's usual failures, seen from the text; searched again."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from transformer_cli.data.filters.rules import ScriptCheck, is_copy
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translator import (
    SLOT_BEAM,
    EncodedLine,
    Progress,
    ShouldStop,
    TextTranslator,
    ignore,
    never,
)
from transformer_cli.text.protocol import Translation
from transformer_cli.text.reserved import compare_placeholders

# A phrase three times in a row, 'of the car of the car of the car', or four times within a word,
# as no 'Sonnenenergie' has; not twice, or three times, in the source.
_REPEATED = {
    times: re.compile(rf"(?P<phrase>\S.{{1,59}}?)(?P=phrase){{{times - 1}}}") for times in (2, 3)
}
_STUTTERED = {
    times: re.compile(rf"([^\W\d_])\1{{{3 * times - 4}}}|(\S{{2,30}}?)\2{{{times}}}")
    for times in (2, 3)
}
# Times as long or as short as the source. Of the 169,813 pairs in Tatoeba's download, one is.
_MAX_LENGTH_RATIO = 3.0
_SMOOTHING = 10  # characters, so that a word may become a clause
# Ideographs, kana and hangul, of which one says as much as some three letters.
_DENSE = re.compile("[\u2e80-\ud7ff]")


class DoubtFinder:
    """Tells translations into a language that are most likely wrong."""

    def __init__(self, tgt_lang: str) -> None:
        self._script = ScriptCheck(tgt_lang)

    def find(self, src: str, tgt: str) -> str:
        """Return what is doubtful about a translation, as in 'repeats itself'; '' if nothing is."""
        if not src.strip():
            return ""
        ratio = (_length(tgt) + _SMOOTHING) / (_length(src) + _SMOOTHING)
        if _repeats(tgt, 3) and not _repeats(src, 2):
            return "repeats itself"
        if not 1 / _MAX_LENGTH_RATIO <= ratio <= _MAX_LENGTH_RATIO:
            return "too long" if ratio > 1 else "too short"
        if is_copy(src, tgt):
            return "source copied"
        script = self._script.foreign_script(tgt)
        if script and self._script.foreign_script(src) != script:
            return f"in {script.capitalize()} letters"
        return ""


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text) + 2 * len(_DENSE.findall(text))


def _repeats(text: str, times: int) -> bool:
    words = text.split()
    is_dense = bool(_DENSE.search(text))  # and has no spaces
    # The pattern takes time, and hardly a line with spaces has words enough that are alike.
    if is_dense or len(words) - len(set(words)) >= times - 1:
        phrases = (each["phrase"] for each in _REPEATED[times].finditer(text + " "))
        if any(any(map(str.isalpha, one)) and (is_dense or " " in one) for one in phrases):
            return True
    return any(any(map(str.isalpha, each[0])) for each in _STUTTERED[times].finditer(text))


_finder_of = cache(DoubtFinder)


def tell_doubts(
    translator: TextTranslator[SearchEngine],
    encoded: Sequence[EncodedLine],
    found: Sequence[list[Translation]],
) -> list[list[Translation]]:
    """Return the translations of lines, the best of each with what is doubtful about it."""
    finder = _finder_of(translator.config.data.tgt_lang)
    return [
        [replace(best, doubt=finder.find(line.text, best.text)), *others]
        for line, (best, *others) in zip(encoded, found, strict=True)
    ]


def search_doubtful_again(
    translator: TextTranslator[SearchEngine],
    encoded: Sequence[EncodedLine],
    found: Sequence[list[Translation]],
    with_alignments: bool = False,
    progress: Progress = ignore,
    should_stop: ShouldStop = never,
) -> list[list[Translation]]:
    """Return what ``tell_doubts`` does, after a second search for lines with a doubtful best one.

    Its beam is wider, and the best translation that is not doubtful, and has all placeholders,
    is taken; without one, the first stays. Samples are what the model says, good or bad.
    """
    told = tell_doubts(translator, encoded, found)
    places = [place for place, (best, *_) in enumerate(told) if best.doubt]
    if not places or translator.sample_seed is not None:
        return told
    beam_size = max(SLOT_BEAM, translator.decoding.beam_size)
    lines = [encoded[place] for place in places]
    again = translator.with_search(beam_size).translate_encoded(
        lines, beam_size, with_alignments, progress, should_stop
    )
    protect = translator.tokenizers.protect
    finder = _finder_of(translator.config.data.tgt_lang)
    for place, line, candidates in zip(places, lines, again, strict=True):
        first = told[place][0]
        differs = bool(compare_placeholders(line.text, first.text, protect))
        good = (
            replace(one, is_second=True)
            for one in candidates
            if not finder.find(line.text, one.text)
            and (differs or not compare_placeholders(line.text, one.text, protect))
        )
        told[place] = [next(good, first)]
    return told

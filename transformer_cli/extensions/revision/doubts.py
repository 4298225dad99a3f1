"""Find doubtful translations from any engine, search for better ones, and report both.

A translation is doubtful if it repeats itself, is much too long or too short, has a broken
character, copies its source, or is in the wrong script.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import TYPE_CHECKING, Any

from transformer_cli.extensions.revision.foreign_scripts import are_close, script_of, scripts_of
from transformer_cli.extensions.verbatim.manifest import SIGNS
from transformer_cli.extensions.verbatim.verbatim_parts import without_verbatim
from transformer_cli.inference.translation import EncodedLine, Notes, Reviser, Translation

if TYPE_CHECKING:
    from transformer_cli.inference.translator import TextTranslator, Watcher

MIN_SCRIPT_LETTERS = 5  # fewer letters, such as an abbreviation, do not show a line's script
MAX_FOREIGN_SHARE = 0.5  # maximum share of a line's letters in scripts of other languages
MIN_TELLING_LETTERS = 20  # shorter copies may be right: 'GNU General Public' has 16 letters
# The same phrase three times in a row, as in 'of the car of the car of the car', or four times
# within a word, which words like 'Sonnenenergie' do not have. The source must not have it two or
# three times.
_REPEATED = {
    times: re.compile(rf"(?P<phrase>\S.{{1,59}}?)(?P=phrase){{{times - 1}}}") for times in (2, 3)
}
_STUTTERED = {
    times: re.compile(rf"([^\W\d_])\1{{{3 * times - 4}}}|(\S{{2,30}}?)\2{{{times}}}")
    for times in (2, 3)
}
# Maximum ratio of the lengths. Only one of the 169,813 pairs in Tatoeba's download exceeds it.
_MAX_LENGTH_RATIO = 3.0
_SMOOTHING = 10  # characters; lets a word become a clause
# Ideographs, kana and hangul: each says about as much as three letters.
_DENSE = re.compile("[\u2e80-\ud7ff]")
SECOND_BEAM = 8
"""The beam size of the second search, unless the first search has a wider beam."""
MAX_SHARE = 1 / 16
"""The share of the source tokens that may be searched for again, so that no text takes much longer
than ordinary text, of which a few percent are doubtful."""
_FEWEST_TOKENS = 512  # that may be searched for again, even if that is more than the share
_SHOWN_LINES = 10
UNLIKE = "unlike the training text, copied"
"""The remark on a line that is its own translation because of ``Sparing``."""
FIXED = "fixed by a second search"
"""The remark on a translation from the second search; any other remark is a doubt."""


class DoubtFinder:
    """Finds the translations into one target language that are most likely wrong."""

    def __init__(self, tgt_lang: str, may_copy: bool = False) -> None:
        self._script = ScriptCheck(tgt_lang)
        self._may_copy = may_copy

    def find(self, src: str, tgt: str) -> str:
        """Return why a translation is doubtful, e.g. 'repeats itself', or '' if it is not."""
        if not src.strip():
            return ""
        ratio = (_length(tgt) + _SMOOTHING) / (_length(src) + _SMOOTHING)
        if _repeats(tgt, 3) and not _repeats(src, 2):
            return "repeats itself"
        if not 1 / _MAX_LENGTH_RATIO <= ratio <= _MAX_LENGTH_RATIO:
            return "too long" if ratio > 1 else "too short"
        if "\ufffd" in tgt and "\ufffd" not in src:
            return "has a broken character"
        if not self._may_copy and is_copy(src, tgt):
            return "source copied"
        script = self._script.foreign_script(tgt)
        if script and self._script.foreign_script(src) != script:
            return f"in {script.capitalize()} letters"
        return ""


def is_copy(src: str, tgt: str) -> bool:
    """Return whether the target equals the source and is long enough to need translation."""
    return src.strip() == tgt.strip() and not is_short(src)


def is_short(line: str) -> bool:
    """Return whether a line has so few letters, except in URLs etc., that a copy may be right."""
    return sum(map(str.isalpha, without_verbatim(line))) < MIN_TELLING_LETTERS


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text) + 2 * len(_DENSE.findall(text))


def _repeats(text: str, times: int) -> bool:
    words = text.split()
    is_dense = bool(_DENSE.search(text))  # such text has no spaces
    # The pattern is slow, and few lines with spaces have enough equal words.
    if is_dense or len(words) - len(set(words)) >= times - 1:
        phrases = (each["phrase"] for each in _REPEATED[times].finditer(text + " "))
        if any(any(map(str.isalpha, one)) and (is_dense or " " in one) for one in phrases):
            return True
    return any(any(map(str.isalpha, each[0])) for each in _STUTTERED[times].finditer(text))


class ScriptCheck:
    """A check for lines that are in none of a language's scripts."""

    def __init__(self, language: str) -> None:
        self._scripts = scripts_of(language)

    def foreign_script(self, line: str) -> str | None:
        """Return the first foreign script if most letters are in foreign scripts, else None."""
        if self._scripts is None or ("LATIN" in self._scripts and line.isascii()):
            return None
        letters = list(filter(str.isalpha, line))
        if len(letters) < MIN_SCRIPT_LETTERS:
            return None
        scripts = filter(None, map(script_of, letters))
        foreign = [script for script in scripts if script not in self._scripts]
        return foreign[0] if len(foreign) > MAX_FOREIGN_SHARE * len(letters) else None


# --- second searches ------------------------------------------------------------------------------


def doubt_of(translation: Translation) -> str:
    """Return why a translation is doubtful, e.g. 'repeats itself', or '' if it is not."""
    return "" if translation.remark == FIXED else translation.remark


def may_copy(translator: "TextTranslator[Any]") -> bool:
    """Return whether a translation that equals its source may be right.

    It may be right between closely related languages, or if the training text has many copies.
    """
    data = translator.config.data
    return translator.tokenizers.copied or are_close(data.src_lang, data.tgt_lang)


@dataclass(frozen=True)
class Doubts(Reviser):
    """A reviser that marks doubtful translations and searches for better ones.

    Attributes:
        finder: finds doubtful translations.
        is_raw: whether to leave translations unchanged, as is done when their scores are written.
        falls_back: whether to write the source line if all its translations are doubtful.
    """

    finder: DoubtFinder
    is_raw: bool = False
    falls_back: bool = False

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: "Watcher",
    ) -> list[list[Translation]]:
        """Search again, with a wider beam, if a line's best translation is doubtful.

        Take the best new translation that is not doubtful and has lost no more placeholders or
        terms than the old one. If there is none, keep the old one. Samples are never replaced.
        """
        doubts = [
            # A line without words, which is copied too, was not encoded.
            UNLIKE if line.is_copied and line.source.ids else self.finder.find(line.text, best.text)
            for line, (best, *_) in zip(lines, found, strict=True)
        ]
        again: dict[int, list[Translation]] = {}
        if any(doubts) and not self.is_raw and translator.sampler is None:
            places = _choose(lines, found, doubts)
            beam_size = max(SECOND_BEAM, translator.decoding.beam_size)
            others = tuple(each for each in translator.revisers if each is not self)
            wider = replace(translator.with_search(beam_size), revisers=others)
            quiet = type(watcher)(should_stop=watcher.should_stop)
            second = wider.translate_encoded([lines[place] for place in places], beam_size, quiet)
            again = dict(zip(places, second, strict=True))
        count_losses = translator.tokenizers.count_losses
        revised = list(found)
        for place in (place for place, doubt in enumerate(doubts) if doubt):
            candidates = again.get(place, [])
            src, (first, *rest) = lines[place].text, found[place]
            most = count_losses(src, first.text)
            for one in candidates:
                is_doubtful = self.finder.find(src, one.text)
                if not is_doubtful and all(map(le, count_losses(src, one.text), most)):
                    revised[place] = [replace(one, remark=FIXED)]
                    break
            else:
                text = src if self.falls_back else first.text
                first = replace(first, text=text, remark=doubts[place])
                revised[place] = [first, *([] if candidates else rest)]
        return revised

    def notes(self) -> Notes:
        """Return notes about doubtful lines and about lost numbers, addresses and tabs."""
        return RevisionNotes(self.is_raw)


def _choose(
    lines: Sequence[EncodedLine], found: Sequence[list[Translation]], doubts: Sequence[str]
) -> list[int]:
    """Return the places of doubtful lines, as many as can be searched for again in time.

    A second search takes about ten times as long as the first one, which took long if the
    translation is long.
    """
    sizes = [sum(map(len, line.pieces)) for line in lines]
    left = max(_FEWEST_TOKENS, MAX_SHARE * sum(sizes))
    places = []
    for place, doubt in enumerate(doubts):
        size = max(sizes[place], found[place][0].tokens)
        if doubt and sizes[place] and size <= left:
            left -= size
            places.append(place)
    return places


_NUMBER_OR_ADDRESS = re.compile(rf"\d|{SIGNS}")


class RevisionNotes(Notes):
    """Notes about doubtful translations, and those that lack numbers, addresses or tabs."""

    def __init__(self, is_raw: bool = False) -> None:
        self._is_raw = is_raw
        self._lines: defaultdict[str, list[int]] = defaultdict(list)

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterator[str]:
        """Record a line in the notes; yield why its translation is doubtful, if it is."""
        best = found[0]
        if best.text and not self._is_raw and _NUMBER_OR_ADDRESS.search(src):
            from transformer_cli.extensions.revision.lost_numbers import find_losses

            for what in find_losses(src, best.text):
                self._lines[what].append(number)
        if best.text and "\t" in src.strip() and not any("\t" in one.text for one in found):
            self._lines["tabs are lost"].append(number)
        if best.remark:
            self._lines[f"doubtful, {best.remark}"].append(number)
        if doubt := doubt_of(best):
            yield f"doubtful, {doubt}"

    def summary(self, lines: int) -> Iterator[str]:
        """Yield one line of summary for each kind of note."""
        for what in sorted(self._lines, key=lambda each: ("doubtful" in each, FIXED in each)):
            numbers = self._lines[what]
            yield f"{len(numbers):,} of {lines:,} lines: {what}; {name_lines(numbers)}"


def name_lines(numbers: Sequence[int]) -> str:
    """Return the first few line numbers as text for a message, e.g. 'lines 3, 8'."""
    shown = ", ".join(f"{number:,}" for number in numbers[:_SHOWN_LINES])
    more = ", …" if len(numbers) > _SHOWN_LINES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"

"""Doubtful translations, whatever has made them: found, searched again, and noted.

Doubtful are repetitions, wrong lengths, copies of the source, and other scripts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import TYPE_CHECKING, Any, TypeVar

from transformer_cli.extensions.revision.foreign_scripts import are_close, script_of, scripts_of
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim
from transformer_cli.inference.translation import (
    EncodedLine,
    Notes,
    Reviser,
    Translation,
    Watcher,
)

if TYPE_CHECKING:
    from transformer_cli.inference.translator import TextTranslator

Translator = TypeVar("Translator", bound="TextTranslator[Any]")

MIN_SCRIPT_LETTERS = 5  # a line of fewer letters, an abbreviation say, tells no script
MAX_FOREIGN_SHARE = 0.5  # of a line's letters, in other scripts than its language's
MIN_TELLING_LETTERS = 20  # fewer may be anything, as 'GNU General Public', which has 16
MAX_NUMBER_IN_WORDS = 12  # a number that one side may spell out, as it may round ones

_THOUSANDS = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d{3}(?!\d))")
_AFTERNOON = re.compile(r"\b(1[01]|0?[1-9])((?:[:.][0-5]\d)?\s?p\.?\s?m\b)", re.IGNORECASE)
_FULL_HOUR = re.compile(r"(?<=\d):00\b")
_NUMBER, DIGIT = re.compile(r"\d+"), re.compile(r"\d")
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
SECOND_BEAM = 8
"""Beam of the second search for a doubtful translation, unless the first one's is wider."""
_SHOWN_LINES = 10
_DOUBTFUL = "doubtful, "
_FIXED = f"{_DOUBTFUL}fixed by a second search"


class DoubtFinder:
    """Tells translations into a language that are most likely wrong."""

    def __init__(self, tgt_lang: str, may_copy: bool = False) -> None:
        self._script = ScriptCheck(tgt_lang)
        self._may_copy = may_copy

    def find(self, src: str, tgt: str) -> str:
        """Return what is doubtful about a translation, as in 'repeats itself'; '' if nothing is."""
        if not src.strip():
            return ""
        ratio = (_length(tgt) + _SMOOTHING) / (_length(src) + _SMOOTHING)
        if _repeats(tgt, 3) and not _repeats(src, 2):
            return "repeats itself"
        if not 1 / _MAX_LENGTH_RATIO <= ratio <= _MAX_LENGTH_RATIO:
            return "too long" if ratio > 1 else "too short"
        if not self._may_copy and is_copy(src, tgt):
            return "source copied"
        script = self._script.foreign_script(tgt)
        if script and self._script.foreign_script(src) != script:
            return f"in {script.capitalize()} letters"
        return ""


def is_copy(src: str, tgt: str) -> bool:
    """Return whether the target is the source, and so long that it should not be."""
    return src.strip() == tgt.strip() and not is_short(src)


def without_verbatim(line: str) -> str:
    """Return a line with a space for each part that no translation changes."""
    rest, end = [], 0
    for _, start, after in find_verbatim(line):
        rest.append(line[end:start])
        end = after
    return " ".join((*rest, line[end:]))


def is_short(line: str) -> bool:
    """Return whether a line has few letters beside its verbatim parts, and so may be anything."""
    return sum(map(str.isalpha, without_verbatim(line))) < MIN_TELLING_LETTERS


def loses_numbers(src: str, tgt: str) -> bool:
    """Return whether a translation lacks a number of its source too large to be spelled out."""
    if not DIGIT.search(src):
        return False
    return all(
        any(
            int(number[:3]) > MAX_NUMBER_IN_WORDS
            for number in find_numbers(src, read) - find_numbers(tgt, read)
        )
        for read in (True, False)
    )


def find_numbers(line: str, reads_afternoons: bool) -> Counter[str]:
    """Return the numbers of a line: '1,000', '1.000' and '1 000' are one, '3 pm' may be 15."""
    line = without_verbatim(line)
    if not line.isascii():
        line = DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), line)
    if reads_afternoons:
        line = _AFTERNOON.sub(lambda time: f"{int(time[1]) + 12}{time[2]}", line)
    line = _FULL_HOUR.sub("", _THOUSANDS.sub("", line))
    return Counter(number.lstrip("0") or "0" for number in _NUMBER.findall(line))


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


class ScriptCheck:
    """Tells lines that are in no script of a language."""

    def __init__(self, language: str) -> None:
        self._scripts = scripts_of(language)
        self._met: set[str] = set()
        self._foreign: dict[str, str] = {}  # scripts of the letters of others

    def foreign_script(self, line: str) -> str | None:
        """Return the script that most of a line's letters are in, if the language has not it."""
        if self._scripts is None or ("LATIN" in self._scripts and line.isascii()):
            return None
        # By its different characters, since nearly all lines have none that matters.
        characters = set(line)
        for character in characters - self._met:
            self._met.add(character)
            script = script_of(character)
            if script is not None and script not in self._scripts:
                self._foreign[character] = script
        if characters.isdisjoint(self._foreign):
            return None
        letters = [character for character in line if character.isalpha()]
        foreign = [letter for letter in letters if letter in self._foreign]
        is_most = len(foreign) > MAX_FOREIGN_SHARE * len(letters)
        return self._foreign[foreign[0]] if is_most and len(letters) >= MIN_SCRIPT_LETTERS else None


# --- second searches ------------------------------------------------------------------------------


def doubt_of(translation: Translation) -> str:
    """Return what is doubtful about a translation, as in 'repeats itself'; '' if nothing is."""
    remark = translation.remark
    is_doubt = remark.startswith(_DOUBTFUL) and remark != _FIXED
    return remark.removeprefix(_DOUBTFUL) if is_doubt else ""


def may_copy(translator: "TextTranslator[Any]") -> bool:
    """Return whether a translation that is its source may be right.

    So it is between closely related languages, and after a training text with many copies.
    """
    data = translator.config.data
    return translator.tokenizers.copied or are_close(data.src_lang, data.tgt_lang)


@dataclass(frozen=True)
class Doubts(Reviser):
    """Marks doubtful translations, and searches better ones.

    Attributes:
        finder: tells them.
        is_raw: whether what the model says is written, good or bad, as with scores.
        falls_back: whether the line itself is written where all are doubtful.
        tab_advice: what to do if translations lack the tabs of their lines.
    """

    finder: DoubtFinder
    is_raw: bool = False
    falls_back: bool = False
    tab_advice: str = ""

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Watcher,
    ) -> list[list[Translation]]:
        """Search again, with a wider beam, for lines whose best translation is doubtful.

        The best translation that is not doubtful and has lost no more of its source is taken;
        without one, the first stays. Samples are what the model says, good or bad.
        """
        told = [
            [self._tell(line, best), *others]
            for line, (best, *others) in zip(lines, found, strict=True)
        ]
        places = [place for place, (best, *_) in enumerate(told) if best.remark]
        if places and not self.is_raw and translator.sampler is None:
            beam_size = max(SECOND_BEAM, translator.decoding.beam_size)
            others = tuple(each for each in translator.revisers if each is not self)
            wider = replace(translator.with_search(beam_size), revisers=others)
            doubtful = [lines[place] for place in places]
            with watcher.announce(f"searching {len(places):,} doubtful lines again"):
                quiet = Watcher(should_stop=watcher.should_stop)
                again = wider.translate_encoded(doubtful, beam_size, quiet)
            for place, candidates in zip(places, again, strict=True):
                told[place] = [self._choose(translator, lines[place], told[place][0], candidates)]
        if not self.falls_back:
            return told
        return [
            [replace(best, text=line.text) if doubt_of(best) else best, *others]
            for line, (best, *others) in zip(lines, told, strict=True)
        ]

    def _tell(self, line: EncodedLine, translation: Translation) -> Translation:
        doubt = self.finder.find(line.text, translation.text)
        return replace(translation, remark=f"{_DOUBTFUL}{doubt}") if doubt else translation

    def _choose(
        self,
        translator: Any,
        line: EncodedLine,
        first: Translation,
        candidates: Sequence[Translation],
    ) -> Translation:
        count_losses = translator.tokenizers.count_losses
        most = count_losses(line.text, first.text)
        for one in candidates:
            is_doubtful = self.finder.find(line.text, one.text)
            if not is_doubtful and all(map(le, count_losses(line.text, one.text), most)):
                return replace(one, remark=_FIXED)
        return first

    def notes(self) -> Notes:
        """Return what notes doubtful lines, and what is lost."""
        return RevisionNotes(self.is_raw, self.tab_advice)


def without_fallback(translator: Translator) -> Translator:
    """Return a translator that marks doubtful translations, and writes them all the same."""
    revisers = (
        replace(each, falls_back=False) if isinstance(each, Doubts) else each
        for each in translator.revisers
    )
    return replace(translator, revisers=tuple(revisers))


class RevisionNotes(Notes):
    """Notes doubtful lines, and those that lack numbers or tabs of their source."""

    def __init__(self, is_raw: bool = False, tab_advice: str = "") -> None:
        self._is_raw = is_raw
        self._tabs_are_lost = f"tabs are lost{tab_advice and f' ({tab_advice})'}"
        self._tabs: list[int] = []
        self._numbers: list[int] = []
        self._remarks: dict[str, list[int]] = {}

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterator[str]:
        """Note a line; return what is doubtful about its translation."""
        best = found[0]
        if not self._is_raw and loses_numbers(src, best.text):
            self._numbers.append(number)
        if "\t" in src.strip() and not any("\t" in one.text for one in found):
            self._tabs.append(number)
        if best.remark:
            self._remarks.setdefault(best.remark, []).append(number)
        if doubt_of(best):
            yield best.remark

    def summary(self, lines: int) -> Iterator[str]:
        """Yield a line for each kind of what was noted."""
        fixed = {_FIXED: self._remarks.pop(_FIXED, [])}  # told last
        differing = {
            "numbers of the source are missing": self._numbers,
            self._tabs_are_lost: self._tabs,
        }
        for what, numbers in {**differing, **self._remarks, **fixed}.items():
            if numbers:
                yield f"{len(numbers):,} of {lines:,} lines: {what}; {name_lines(numbers)}"


def name_lines(numbers: Sequence[int]) -> str:
    """Return the numbers of some lines as messages say them: the first few."""
    shown = ", ".join(f"{number:,}" for number in numbers[:_SHOWN_LINES])
    more = ", …" if len(numbers) > _SHOWN_LINES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"

"""What is doubtful about a translation, whatever has made it: repetitions, lost numbers, a copy."""

import re
import unicodedata
from collections import Counter

from transformer_cli.extensions.revision.foreign_scripts import ScriptCheck
from transformer_cli.text.lines import find_verbatim

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

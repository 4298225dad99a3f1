"""What makes a translation doubtful, seen from its text alone: a neural model's usual failures."""

import re

from transformer_cli.data.filters.rules import ScriptCheck, is_copy

# A phrase three times in a row: 'of the car of the car of the car'; not twice in the source.
_REPEATED = {
    times: re.compile(rf"(?P<phrase>\S.{{1,59}}?)(?P=phrase){{{times - 1}}}") for times in (2, 3)
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
    # The pattern takes time, and hardly a line with spaces has words enough that are alike.
    if len(words) > 1 and len(words) - len(set(words)) < times - 1:
        return False
    found = _REPEATED[times].finditer(text + " ")
    return any(any(map(str.isalpha, each["phrase"])) for each in found)

"""Find numbers and addresses that a translation has lost. Only imported if a source has some."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim, without_verbatim

MAX_NUMBER_IN_WORDS = 12  # one side may spell out a number up to this one

_THOUSANDS = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d{3}(?!\d))")
_AFTERNOON = re.compile(r"\b(1[01]|0?[1-9])((?:[:.][0-5]\d)?\s?p\.?\s?m\b)", re.IGNORECASE)
_FULL_HOUR = re.compile(r"(?<=\d):00\b")
_NUMBER, DIGIT = re.compile(r"\d+"), re.compile(r"\d")


def find_losses(src: str, tgt: str) -> Iterator[str]:
    """Yield what ``tgt`` lacks of ``src``, as messages."""
    if loses_numbers(src, tgt):
        yield "numbers of the source are missing"
    if loses_addresses(src, tgt):
        yield "URLs or e-mail addresses of the source are missing"


def loses_numbers(src: str, tgt: str) -> bool:
    """Return whether ``tgt`` lacks a number in ``src`` that is too large to be spelled out."""
    if not DIGIT.search(src):
        return False
    lost = (find_numbers(src, read) - find_numbers(tgt, read) for read in (True, False))
    return all(any(int(number[:3]) > MAX_NUMBER_IN_WORDS for number in each) for each in lost)


def loses_addresses(src: str, tgt: str) -> bool:
    """Return whether ``tgt`` lacks a URL or an e-mail address in ``src``."""
    return bool(_find_addresses(src) - _find_addresses(tgt))


def _find_addresses(line: str) -> Counter[str]:
    return Counter(each.text.casefold().rstrip("/*") for each in find_verbatim(line, ["urls"]))


def find_numbers(line: str, reads_afternoons: bool) -> Counter[str]:
    """Return a line's numbers; '1,000', '1.000' and '1 000' are equal; '3 pm' may count as 15."""
    line = without_verbatim(line)
    if not line.isascii():
        line = DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), line)
    if reads_afternoons:
        line = _AFTERNOON.sub(lambda time: f"{int(time[1]) + 12}{time[2]}", line)
    line = _FULL_HOUR.sub("", _THOUSANDS.sub("", line))
    return Counter(number.lstrip("0") or "0" for number in _NUMBER.findall(line))

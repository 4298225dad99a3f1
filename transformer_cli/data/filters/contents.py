"""What a translation keeps: markup, placeholders and numbers."""

import re
import unicodedata
from collections import Counter

from transformer_cli.data.filters.protocol import PairFilter
from transformer_cli.data.filters.short_text import placeholders, without_placeholders

_POSITION_OR_FORMAT = re.compile(r"(?<=%)(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?[hljztL]*")
_TAG_NAME = re.compile(r"</?[\w:-]+")
_THOUSANDS = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d{3}(?!\d))")
_AFTERNOON = re.compile(r"\b(1[01]|0?[1-9])((?:[:.][0-5]\d)?\s?p\.?\s?m\b)", re.IGNORECASE)
_FULL_HOUR = re.compile(r"(?<=\d):00\b")
_NUMBER = re.compile(r"\d+")
_MOST_SPELLED = 12


def markup_filter() -> PairFilter:
    """Return the filter of pairs whose markup and placeholders differ."""
    return PairFilter(
        "markup",
        "the sides have different tags, placeholders or numbers of URLs",
        lambda src, tgt: _markup(src) != _markup(tgt),
    )


def numbers_filter() -> PairFilter:
    """Return the filter of pairs whose numbers differ.

    A number that one side lacks may stand there in words, if it is small or round.
    """
    return PairFilter(
        "numbers", "the sides have different numbers, however they are written", _differ_in_numbers
    )


def _markup(line: str) -> Counter[str]:
    return Counter(bare for each in placeholders(line) if (bare := _bare(each)) is not None)


def _bare(placeholder: str) -> str | None:
    """Return what a translation keeps of a placeholder: it may move it, or link to its language."""
    if placeholder.startswith("%"):
        if not placeholder[-1].isalpha():
            return None if placeholder == "%%" else placeholder
        return _POSITION_OR_FORMAT.sub("", placeholder).lower().replace("%i", "%d")
    if tag := _TAG_NAME.match(placeholder):
        return tag[0].lower()
    if placeholder.startswith("&"):
        return None
    return placeholder if placeholder.endswith("}") else "URL"


def _differ_in_numbers(src: str, tgt: str) -> bool:
    src_numbers, tgt_numbers = _numbers(src), _numbers(tgt)
    if src_numbers == tgt_numbers:
        return False
    only_src, only_tgt = src_numbers - tgt_numbers, tgt_numbers - src_numbers
    if only_src and only_tgt:
        return True
    return not all(map(_may_be_in_words, only_src or only_tgt))


def _numbers(line: str) -> Counter[str]:
    """Return the numbers of a line: '1,000', '1.000' and '1 000' are one, '3 pm' is 15."""
    if not any(map(str.isdecimal, line)):
        return Counter()
    line = without_placeholders(line)
    if not line.isascii():
        line = "".join(
            str(unicodedata.decimal(each)) if each.isdecimal() else each for each in line
        )
    line = _AFTERNOON.sub(lambda time: f"{int(time[1]) + 12}{time[2]}", line)
    line = _FULL_HOUR.sub("", _THOUSANDS.sub("", line))
    return Counter(number.lstrip("0") or "0" for number in _NUMBER.findall(line))


def _may_be_in_words(number: str) -> bool:
    return len(number.rstrip("0")) <= 1 or (len(number) == 2 and int(number) <= _MOST_SPELLED)

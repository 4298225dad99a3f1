"""Rules that find faulty pairs: ``clean`` rejects such pairs, and ``check`` reports them.

To add a rule, add an entry to ``_RULES``. If it has a parameter, also add a field to
``FilterSettings``, which the settings, their schema and the messages use.

A ``FilterPass`` looks at each pair once. When a corpus is filtered, ``deciding.py`` then decides,
using ``FilterPass.columns``. When a text is only checked, each filter decides by itself.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from transformer_cli.base.packages import import_extra
from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.checks.digests import Dropping, digest, find_repeated, is_among
from transformer_cli.extensions.revision.doubts import ScriptCheck, is_copy, is_short
from transformer_cli.extensions.revision.lost_numbers import (
    DIGIT,
    MAX_NUMBER_IN_WORDS,
    find_numbers,
)
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim, without_verbatim
from transformer_cli.text.lines import is_blank

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# --- thresholds -----------------------------------------------------------------------------------

# A side is in another language if that language is this many times as likely as the side's own.
MIN_LIKELIHOOD_RATIO = 100.0
_SPREAD_PERCENTILES = (5, 50, 95)
_SHOWN = 3  # details
# The least distance of a percentile from the median, in logarithms, for a corpus of equal lengths.
_MIN_SPREAD = 0.1
# Keeps short lines, whose ratios vary most, from being outliers: 'Ja.' and 'Yes, indeed.'.
_SMOOTHING = 10

STRICT_SHARE, _TOLERANT_SHARE = 0.001, 0.01
WARNING_SHARES: dict[str, float] = {
    "blank": STRICT_SHARE,
    "encoding": STRICT_SHARE,
    "identical": _TOLERANT_SHARE,
    "script": STRICT_SHARE,
    "length_ratio": STRICT_SHARE,
    "duplicates": _TOLERANT_SHARE,
}
"""The rules that ``check`` applies, as they are fast and need no extra, with the minimum share of
a split's pairs for a warning. Some faults should never occur, others occur in any corpus."""

# --- three kinds of filters, by what they need to know about a corpus -----------------------------


Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class _Filter:
    name: str
    summary: str  # which pairs it rejects, as in 'a side is blank'


@dataclass(frozen=True)
class PairFilter(_Filter):
    """A filter that judges each pair by itself."""

    rejects: Callable[[str, str], bool | str]
    """(source, target) -> whether to reject the pair, or a description of the fault, '' if none."""
    known: ClassVar = np.bool_
    """The type of the value that the filter records for each pair."""

    def look(self, pairs: Pairs, is_done: Sequence[bool]) -> list[bool | str]:
        """Return the fault of each pair; False for pairs to skip, where ``is_done`` is true."""
        both = zip(pairs, is_done, strict=True)
        return [False if done else self.rejects(*pair) for pair, done in both]

    def find(self, known: np.ndarray, usual: object = None) -> np.ndarray:
        return known


@dataclass(frozen=True)
class RepeatFilter(_Filter):
    """A filter that rejects pairs whose key equals the key of an earlier pair."""

    key: Callable[[str, str], str]  # (source, target) -> the text to compare
    known: ClassVar = np.uint64

    def look(self, pairs: Pairs, is_done: Sequence[bool]) -> np.ndarray:
        """Return the digest of each pair's key; ``NO_DIGEST`` where ``is_done`` is true."""
        both = zip(pairs, is_done, strict=True)
        return digest(None if done else self.key(*pair) for pair, done in both)

    def find(self, known: np.ndarray, usual: object = None) -> np.ndarray:
        """Return a mask of the digests in ``known`` that also occur earlier in it."""
        mask = is_among(known, find_repeated(known))
        places = np.flatnonzero(mask)
        _, first = np.unique(known[places], return_index=True)
        mask[places[first]] = False
        return mask


@dataclass(frozen=True)
class OutlierFilter(_Filter):
    """A filter that rejects pairs with an unusual measure, e.g. length ratio."""

    measure: Callable[[str, str], float]  # (source, target) -> a number
    max_spread: float
    """A measure may be this many times as far from the median as the 5th or 95th percentile is. The
    percentiles themselves are no limits, as they would always reject 5% at either end."""
    known: ClassVar = np.float64

    def look(self, pairs: Pairs, is_done: Sequence[bool]) -> list[float]:
        """Return the measure of each pair; NaN for pairs to skip, where ``is_done`` is true."""
        both = zip(pairs, is_done, strict=True)
        return [math.nan if done else self.measure(*pair) for pair, done in both]

    def find(self, known: np.ndarray, usual: np.ndarray | None = None) -> np.ndarray:
        """Return a mask of the measures in ``known`` that are far from ``usual`` (None: ``known``).

        The bounds depend on the distance of the percentiles from the median; see ``max_spread``.
        """
        usual = known if usual is None else usual
        usual = usual[~np.isnan(usual)]
        if not len(usual):
            return np.zeros(len(known), bool)
        low, median, high = np.percentile(usual, _SPREAD_PERCENTILES, overwrite_input=True)
        below, above = max(median - low, _MIN_SPREAD), max(high - median, _MIN_SPREAD)
        is_low = known < median - self.max_spread * below
        return np.asarray(is_low | (known > median + self.max_spread * above))


Filter = PairFilter | RepeatFilter | OutlierFilter


class FilterSettings(DataSection):
    """The settings that filters depend on: the languages and the filters' parameters.

    A field added here becomes a key of data of kind ``corpus``.
    """

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """Return the settings from any kind's data section, with defaults for missing keys."""
        return cls.model_validate({key: value for key, value in data if key in cls.model_fields})


@dataclass(frozen=True)
class DependentRule:
    """A rule whose filter depends on settings or needs an extra."""

    name: str
    build: Callable[[str, FilterSettings], Filter]  # (name, settings) -> the filter


def build_filters(names: Collection[str], settings: FilterSettings) -> list[Filter]:
    """Return ``blank`` and the named filters, in the order in which they are applied.

    Raises:
        MissingExtraError: a filter needs a package that is not installed.
    """
    return [
        rule.build(rule.name, settings) if isinstance(rule, DependentRule) else rule
        for rule in _RULES
        if rule.name == "blank" or rule.name in names
    ]


# --- texts, lengths -------------------------------------------------------------------------------


# Drops digits, punctuation and white space. It keeps marks, as some vowels of Hindi are marks.
_FOLDING = Dropping("N", "P", "Z", "C")


def _fold(line: str) -> str:
    # Without the alternative, all lines of only numbers would be equal.
    return line.casefold().translate(_FOLDING) or line


# --- markup and numbers ---------------------------------------------------------------------------

_POSITION_OR_FORMAT = re.compile(r"(?<=%)(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?[hljztL]*")
_TAG_NAME = re.compile(r"</?[\w:-]+")


def _differ_in_markup(src: str, tgt: str) -> bool:
    parts = [[each.text for each in find_verbatim(line)] for line in (src, tgt)]
    if not any(parts):
        return False
    src_kept, tgt_kept = (Counter(filter(None, map(_kept, side))) for side in parts)
    return src_kept != tgt_kept


def _kept(placeholder: str) -> str:
    """Return the part of a placeholder that translations keep, without positions and links."""
    if placeholder.startswith("%"):
        if not placeholder[-1].isalpha():
            return "" if placeholder == "%%" else placeholder
        return _POSITION_OR_FORMAT.sub("", placeholder).lower().replace("%i", "%d")
    if tag := _TAG_NAME.match(placeholder):
        return tag[0].lower()
    if placeholder.startswith("&"):
        return ""
    return placeholder if placeholder.endswith("}") else "URL"


def _differ_in_numbers(src: str, tgt: str) -> bool:
    if not (DIGIT.search(src) or DIGIT.search(tgt)):
        return False
    # '3 pm' may be 'um 15 Uhr' or 'um 3 Uhr nachmittags'.
    return all(
        _are_others(find_numbers(src, read), find_numbers(tgt, read)) for read in (True, False)
    )


def _are_others(src_numbers: Counter[str], tgt_numbers: Counter[str]) -> bool:
    only_src, only_tgt = src_numbers - tgt_numbers, tgt_numbers - src_numbers
    return bool(only_src and only_tgt) or any(
        len(number.rstrip("0")) > 1 and int(number[:3]) > MAX_NUMBER_IN_WORDS
        for number in only_src or only_tgt
    )


# --- scripts and encodings ------------------------------------------------------------------------

# Control characters other than the tab, U+FFFD, lone surrogates and private-use characters; also
# UTF-8 that was read as Latin-1 or Windows-1252, and written as UTF-8 again.
_DAMAGED = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd\ud800-\udfff\ue000-\uf8ff]"
    "|[ÃÐÑ][\u0080-\u00ba\u00bc-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u201e\u2030]|â€"
)


# --- languages, detected by py3langid -------------------------------------------------------------

# The model's labels for a language, if they are not just its code.
_LIKE = {"nb": "no", "zh": "zh wuu yue", "ar": "ar ary arz", "ku": "ku sdh", "uz": "uz uzs"}
_LIKE |= dict.fromkeys(("bs", "hr", "sr"), "bs hr sr")


@cache  # it takes half a second
def _load_identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _language_check(language: str, skip_short: bool) -> Callable[[str], bool]:
    """Return a check for lines that are almost certainly in another language.

    The model may choose any language. Limited to two, it would take a third for one of them.
    """
    first, identifier = base_language(language), _load_identifier()
    labels = set(_LIKE.get(first, first).split()) & set(identifier.labels)

    def is_foreign(line: str) -> bool:
        if not labels:  # the model does not know the language
            return False
        line = without_verbatim(line)
        best, probability = identifier.classify(line)
        if best in labels or (skip_short and is_short(line)):
            return False
        shares = dict(identifier.rank(line))
        return bool(sum(shares[label] for label in labels) * MIN_LIKELIHOOD_RATIO < probability)

    return is_foreign


def detect_language(text: str) -> list[tuple[str, float]]:
    """Return the languages that a text may be in, likeliest first, with their probabilities."""
    import_extra("py3langid", "clean", "detecting a language")
    codes = {label: code for code, labels in _LIKE.items() for label in labels.split()}
    ranked = _load_identifier().rank(without_verbatim(text))
    return [(codes.get(label, label), float(share)) for label, share in ranked]


# --- all rules ------------------------------------------------------------------------------------


def _find_blank(src: str, tgt: str) -> str:
    is_blank_of = {"source": is_blank(src), "target": is_blank(tgt)}
    sides = [side for side, blank in is_blank_of.items() if blank]
    return "both sides" if len(sides) == 2 else "".join(sides)


def _build_script(name: str, settings: FilterSettings) -> PairFilter:
    src_check, tgt_check = ScriptCheck(settings.src_lang), ScriptCheck(settings.tgt_lang)

    def find(src: str, tgt: str) -> str:
        scripts = (src_check.foreign_script(src), tgt_check.foreign_script(tgt))
        if scripts == (None, None):
            return ""
        sides = zip(("source", "target"), scripts, strict=True)
        return ", ".join(f"{side}: {script.capitalize()}" for side, script in sides if script)

    what = "most letters of a side are in a script that its language does not use"
    return PairFilter(name, what, find)


def _find_damage(src: str, tgt: str) -> str:
    found = _DAMAGED.search(src) or _DAMAGED.search(tgt)
    if found is None:
        return ""
    return found[0] if found[0].isprintable() else f"U+{ord(found[0][-1]):04X}"


def _build_language(name: str, settings: FilterSettings) -> PairFilter:
    import_extra("py3langid", "clean", f"data.filters: filter '{name}'")
    skip_short = name == "language"
    what = "a side that is not short" if skip_short else "a side, even a short one,"
    languages = settings.src_lang, settings.tgt_lang
    src_is_foreign, tgt_is_foreign = (_language_check(code, skip_short) for code in languages)
    return PairFilter(
        name,
        f"{what} is most likely in the wrong language",
        lambda src, tgt: src_is_foreign(src) or tgt_is_foreign(tgt),
    )


# In the order in which they are applied.
_RULES: tuple[Filter | DependentRule, ...] = (
    PairFilter("blank", "a side has only invisible characters", _find_blank),
    PairFilter(
        "encoding",
        "a side has control characters, U+FFFD, or UTF-8 read as another encoding",
        _find_damage,
    ),
    PairFilter(
        # Short pairs may be right: names, titles and 'OK' are the same in many languages.
        "identical",
        "the target equals the source and is not short",
        is_copy,
    ),
    DependentRule("script", _build_script),
    PairFilter(
        "markup",
        "the sides have different tags, placeholders or numbers of URLs",
        _differ_in_markup,
    ),
    PairFilter("numbers", "the sides have different numbers, in any notation", _differ_in_numbers),
    DependentRule("language", _build_language),
    # Short sides are often misjudged.
    DependentRule("language_short", _build_language),
    OutlierFilter(
        "length",
        "the longer side is unusually long or short",
        lambda src, tgt: math.log(max(len(src), len(tgt)) + _SMOOTHING),
        max_spread=3.0,
    ),
    OutlierFilter(
        "length_ratio",
        "the ratio of the sides' lengths is unusual",
        lambda src, tgt: math.log((len(src) + _SMOOTHING) / (len(tgt) + _SMOOTHING)),
        max_spread=2.5,
    ),
    RepeatFilter("duplicates", "the same pair occurs earlier", lambda src, tgt: f"{src}\n{tgt}"),
    RepeatFilter(
        "duplicates_folded",
        "the same pair occurs earlier, apart from case, digits, punctuation or white space",
        lambda src, tgt: f"{_fold(src)}\n{_fold(tgt)}",
    ),
)
FILTER_NAMES = tuple(rule.name for rule in _RULES)


# --- a pass of pairs through filters --------------------------------------------------------------


class FilterPass:
    """A pass of pairs through filters, which records what each filter needs to know about them.

    If a filter certainly rejects a pair, the filters after it do not see the pair. The record takes
    at most 8 bytes per pair and filter: a flag, a measure or a digest.

    Args:
        filters: the filters; the first is ``blank``.
        active: the names of the filters that apply to these pairs; None: all filters see all pairs
            that are not blank.
    """

    def __init__(self, filters: Sequence[Filter], active: Collection[str] | None = None) -> None:
        self.filters = filters
        self._active = active
        self._known = [bytearray() for _ in filters]
        self.details: list[dict[int, str]] = [{} for _ in filters]
        """For each filter, the faults of the first few pairs that it rejects, keyed by index."""

    def add(self, pairs: Pairs) -> list[bool]:
        """Look at more pairs; return, for each pair, whether no further filter needs to see it."""
        is_done = [False] * len(pairs)
        for place, filter_ in enumerate(self.filters):
            # Repeat filters need all pairs, as other sources may repeat them.
            is_looked_at = self._active is None or filter_.name in self._active
            is_looked_at |= isinstance(filter_, RepeatFilter)
            wanted = is_done if is_looked_at else [True] * len(pairs)
            if isinstance(filter_, PairFilter):
                wrong = filter_.look(pairs, wanted)
                found: Any = list(map(bool, wrong))
                if any(found):
                    self._note(place, wrong)
                if not place or self._active is not None:
                    is_done = list(map(or_, is_done, found))
            else:
                found = filter_.look(pairs, wanted)
            self._known[place] += np.asarray(found, filter_.known).tobytes()
        return is_done

    def _note(self, place: int, found: Sequence[bool | str]) -> None:
        first, details = len(self._known[place]), self.details[place]
        rejected = ((number, wrong) for number, wrong in enumerate(found) if wrong)
        for number, wrong in islice(rejected, max(0, _SHOWN - len(details))):
            details[first + number] = wrong if isinstance(wrong, str) else ""

    def columns(self) -> list[np.ndarray]:
        """Return an array for each filter, with a flag, a measure or a digest for each pair."""
        return [
            np.frombuffer(known, filter_.known)
            for known, filter_ in zip(self._known, self.filters, strict=True)
        ]

    def rejected(self, typical: "FilterPass | None" = None) -> Iterator[np.ndarray]:
        """Yield, for each filter, a mask of all pairs that it would reject by itself.

        ``typical`` is a pass of the same filters over a text that defines what is usual; None: this
        pass.
        """
        columns = self.columns()
        usual = typical.columns() if typical else columns
        for filter_, known, of_usual in zip(self.filters, columns, usual, strict=True):
            yield filter_.find(known, of_usual)

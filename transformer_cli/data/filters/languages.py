"""Sides in another language, as py3langid tells it."""

from functools import cache
from typing import TYPE_CHECKING

from transformer_cli.config.data_schema import FilterName
from transformer_cli.data.filters.protocol import PairFilter
from transformer_cli.data.filters.short_text import is_short, without_placeholders
from transformer_cli.packages import import_extra

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_TIMES_LIKELIER = 100.0
"""Than the language that a side should be in is another one, if the side counts as in that."""
_LIKE = {"nb": "no", "zh": "zh wuu yue", "ar": "ar ary arz", "ku": "ku sdh", "uz": "uz uzs"}
_LIKE |= dict.fromkeys(("bs", "hr", "sr"), "bs hr sr")
"""Labels of the model that count as a language, where not its own alone."""


def language_filter(src_lang: str, tgt_lang: str) -> PairFilter:
    """Return the filter of pairs with a side that is surely in another language."""
    return _filter("language", "a side that is not short", src_lang, tgt_lang)


def short_language_filter(src_lang: str, tgt_lang: str) -> PairFilter:
    """Return the same filter for sides of any length, of which short ones are often misjudged."""
    return _filter("language_short", "a side, even a short one,", src_lang, tgt_lang)


def _filter(name: FilterName, what: str, src_lang: str, tgt_lang: str) -> PairFilter:
    import_extra("py3langid", "clean", f"filter '{name}'")
    identifier = _load_identifier()
    src, tgt = (_Judge(identifier, each, name == "language") for each in (src_lang, tgt_lang))
    return PairFilter(
        name,
        f"{what} is most likely in another language than it should be",
        lambda source, target: src.is_foreign(source) or tgt.is_foreign(target),
    )


@cache  # it takes half a second
def _load_identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class _Judge:
    """Judges whether lines are in a language.

    All languages of the model stay, or a third one would be taken for one of two.
    """

    def __init__(self, identifier: "LanguageIdentifier", language: str, skip_short: bool) -> None:
        first = language.partition("-")[0]
        self._identifier = identifier
        self._skip_short = skip_short
        self._labels = set(_LIKE.get(first, first).split()) & set(identifier.labels)

    def is_foreign(self, line: str) -> bool:
        """Return whether a line is surely in another language."""
        if not self._labels:  # the model does not know the language
            return False
        line = without_placeholders(line)
        best, probability = self._identifier.classify(line)
        if best in self._labels or (self._skip_short and is_short(line)):
            return False
        shares = dict(self._identifier.rank(line))
        own = sum(shares[label] for label in self._labels)
        return bool(own * _TIMES_LIKELIER < probability)

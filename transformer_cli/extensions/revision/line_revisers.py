"""Revises translations: doubtful lines are searched again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import Any, TypeVar

from transformer_cli.extensions.revision.doubts import DoubtFinder, loses_numbers
from transformer_cli.extensions.revision.foreign_scripts import are_close
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translation import (
    EncodedLine,
    Notes,
    Reviser,
    Translation,
    Watcher,
)
from transformer_cli.inference.translator import TextTranslator

SECOND_BEAM = 8
"""Beam of the second search for a doubtful translation, unless the first one's is wider."""
_SHOWN_LINES = 10
_DOUBTFUL = "doubtful, "
_FIXED = f"{_DOUBTFUL}fixed by a second search"
Translator = TypeVar("Translator", bound=TextTranslator[Any])


def doubt_of(translation: Translation) -> str:
    """Return what is doubtful about a translation, as in 'repeats itself'; '' if nothing is."""
    remark = translation.remark
    is_doubt = remark.startswith(_DOUBTFUL) and remark != _FIXED
    return remark.removeprefix(_DOUBTFUL) if is_doubt else ""


def may_copy(translator: TextTranslator[Any]) -> bool:
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
        translator: TextTranslator[SearchEngine],
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
        translator: TextTranslator[SearchEngine],
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

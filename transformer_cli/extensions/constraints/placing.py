"""Put lost terms into translations.

Each term replaces some words of the translation, those for which the model finds the new
translation likeliest. This only scores translations, which takes less time than a search in which
terms are forced (Post and Vilar 2018).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.config.languages import has_spaces
from transformer_cli.extensions.constraints.terms import Term, split_words
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim
from transformer_cli.inference.engine import Hypothesis
from transformer_cli.inference.translation import EncodedLine, Reviser, Translation

with lazy_imports():
    from transformer_cli.extensions.constraints import torch_scores  # imports torch

if TYPE_CHECKING:
    from transformer_cli.extensions.constraints.reserved import ReservedTokenizers

_MOST_ROUNDS = 8  # terms to put into a line
_FEWEST = 2  # candidates for a term
# In all candidates for a term, beyond the first two. Scoring them takes as long as three lines.
_MOST_CHARACTERS = 400


@dataclass(frozen=True)
class Placing(Reviser):
    """A reviser that puts the terms that a translation has lost into it."""

    comes_last = True

    tokenizers: "ReservedTokenizers"

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Any,
    ) -> list[list[Translation]]:
        """Replace the best translation of each line that has lost terms.

        N-best lists, samples and lines that are split are kept.
        """
        if (n_best or 1) > 1 or translator.sampler is not None:
            return found
        revised = list(found)
        losing = [
            place
            for place, (line, (best, *_)) in enumerate(zip(lines, found, strict=True))
            # A doubtful translation may have been replaced by the source.
            if len(line.pieces) == 1 and not (best.remark and best.text == line.text)
        ]
        for _ in range(_MOST_ROUNDS):
            candidates: dict[int, list[tuple[str, list[int]]]] = {}
            for place in losing:
                if own := self._candidates(translator, lines[place], revised[place][0].text):
                    candidates[place] = own
            if not candidates:
                break
            losing = [*candidates]
            sources = [lines[place].pieces[0] for place, own in candidates.items() for _ in own]
            targets = [ids for own in candidates.values() for _, ids in own]
            scores = iter(_score(translator, sources, targets))
            for place, own in candidates.items():
                scored = [(next(scores), *one) for one in own]
                # A longer translation is less likely, so compare the means of its tokens.
                total, text, ids = max(scored, key=lambda one: one[0] / (len(one[2]) + 1))
                (written,) = translator.write([(lines[place], (Hypothesis(ids, total),))])
                if written.text != text:
                    # The vocabulary lacks some words, or the tokenizer writes it in another way.
                    written = replace(written, text=text, alignment=())
                revised[place] = [replace(written, remark=revised[place][0].remark)]
        return revised

    def _candidates(
        self, translator: Any, line: EncodedLine, best: str
    ) -> list[tuple[str, list[int]]]:
        """Return translations that have lost fewer terms, with their ids; none if all are there."""

        def find_lost(text: str) -> list[Term]:
            return self.tokenizers.find_lost(line.text, text)[1]

        if not (lost := find_lost(best)):
            return []
        limits = filter(None, (translator.max_length, translator.max_positions))
        longest = min(limits, default=math.inf)
        prefix = getattr(line, "prefix", "")  # of the extension `prefixes`
        kept = len(prefix) if best.startswith(prefix) else 0
        spaced = has_spaces(translator.config.data.tgt_lang)
        for each in self.tokenizers.find_terms(line.text):
            if each.term not in lost:
                continue
            share = each.start / max(1, len(line.text))
            made = dict.fromkeys(insert_term(best, each.term, share, spaced, kept))
            encoded = (
                (text, translator.tokenizers.encode_prefix(text, line.source))
                for text in made
                if len(find_lost(text)) < len(lost)
            )
            good = (one for one in encoded if len(one[1]) < longest)
            most = max(_FEWEST, _MOST_CHARACTERS // (len(best) + 1))
            if candidates := [*islice(good, most)]:
                return candidates
        return []


def insert_term(text: str, term: Term, share: float, spaced: bool, kept: int = 0) -> Iterator[str]:
    """Yield copies of a text in which a term's translation replaces some words or is inserted.

    ``share`` says about where: from 0 for the start of the text to 1 for its end. Copies with the
    term near there come first. The first ``kept`` characters do not change.
    """
    spans = [(0, kept), *((start, end) for _, start, end in find_verbatim(text))]

    def is_free(start: int, end: int) -> bool:
        return not any(first < end and start < last for first, last in spans)

    words = [
        word
        for word in split_words(text)
        if word.text[0].isalnum() and is_free(word.start, word.end)
    ]
    if not words:
        yield f"{text} {term.target}".strip()
        return
    most = min(len(split_words(term.target)), len(words))
    gap = " " * spaced
    for first in sorted(range(len(words)), key=lambda place: abs(place - share * len(words))):
        start = words[first].start
        target = term.target
        if first == 0 and not kept and text[start].isupper():
            target = target[:1].upper() + target[1:]
        for last in range(first, min(first + most, len(words))):
            if is_free(start, words[last].end):
                yield text[:start] + target + text[words[last].end :]
        yield text[:start] + term.target + gap + text[start:]
        if first == len(words) - 1:
            end = words[first].end
            yield text[:end] + gap + term.target + text[end:]


def _score(
    translator: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> Iterable[float]:
    """Return the log-probability of each target; see ``score_tokens``."""
    if translator.engine.name == "torch":
        return map(math.fsum, torch_scores.score_tokens(translator, sources, targets))
    scores: list[float] = translator.engine.score(
        sources, targets, translator.decoding.batch_tokens
    )
    return scores

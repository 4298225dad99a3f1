"""All checks of one split of a corpus, in one pass.

Beside the text's different characters, 20 bytes a pair are held: two digests and a ratio.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field

import numpy as np

from transformer_cli.audit.line_checks import LineChecks, Occurrences
from transformer_cli.audit.shift import ShiftCheck
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairProgress, PairSource
from transformer_cli.data.selection import Digests
from transformer_cli.errors import CorpusError
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.scripts import scripts_of
from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

# So that short lines, which vary most, are not odd: 'Ja.' beside 'Yes, indeed.'.
_SMOOTHING = 10
_DEVIATIONS, _FACTOR = 6.0, 3.0
_GAUSSIAN = 1.4826  # a normal distribution's standard deviation over its median absolute one
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass
class SideCheck:
    """Checks of one side: its lines, and their numbers of tokens."""

    lines: LineChecks
    encode: Callable[[str], Sized]
    lengths: Counter[int] = field(default_factory=Counter)
    """Number of lines by number of tokens."""

    def check_line(self, index: int, line: str) -> int:
        """Check a line that is not blank, and count its tokens."""
        self.lines.check_line(index, line)
        tokens = len(self.encode(line))
        self.lengths[tokens] += 1
        return tokens

    def length_counts(self) -> np.ndarray:
        """Return the number of lines of 0, 1, 2, … tokens."""
        counts = np.zeros(max(self.lengths) + 1, dtype=np.int64)
        counts[list(self.lengths)] = list(self.lengths.values())
        return counts


class SplitCheck:
    """Checks a split.

    Args:
        name: what it is called.
        source: its text.
        config: the experiment's settings.
        tokenizers: those that it is to be trained with; None: not known yet, and lines are cut as
            ``cut`` says.
        longest: most tokens of a side.
        training: what is trained on, checked before; None for that itself.
        cut: cuts a line into what its length is counted in, where there are no tokenizers.
    """

    def __init__(
        self,
        name: str,
        source: PairSource,
        config: Config,
        tokenizers: Tokenizers | None,
        longest: int,
        training: "Sequence[SplitCheck] | None" = None,
        cut: Callable[[str], Sized] = str.split,
    ) -> None:
        self.name = name
        self.source = source
        self.training = training
        self.pairs = 0
        self.pair_digests, self.src_digests = Digests(), Digests()
        self.blank, self.copied, self.long = Occurrences(), Occurrences(), Occurrences()
        self._shift = ShiftCheck()
        languages = (config.data.src_lang, config.data.tgt_lang)
        both = (None, None) if tokenizers is None else (tokenizers.src, tokenizers.tgt)
        self._one_language = languages[0] == languages[1]
        self._longest = longest
        self._ratios = array("f")
        self.sides = tuple(
            SideCheck(
                LineChecks(scripts_of(language), self._lacks(number, tokenizer)),
                tokenizer.encode if tokenizer is not None else cut,
            )
            for number, (language, tokenizer) in enumerate(zip(languages, both, strict=True))
        )

    def _lacks(self, side: int, tokenizer: Tokenizer | None) -> Callable[[str], bool]:
        if tokenizer is not None:
            return Characters(tokenizer).lacks
        if self.training is None:
            return lambda character: False
        seen = [split.sides[side].lines.characters for split in self.training]
        return lambda character: not any(character in characters for characters in seen)

    def read(self, progress: PairProgress) -> None:
        """Read and check the split.

        Raises:
            CorpusError: it is missing, misaligned, not UTF-8, or every pair has a blank side.
        """
        for src, tgt in progress(self.source.pairs(), self.name):
            self._look_at(self.pairs, src, tgt)
            self._shift.add(src, tgt)
            self.pairs += 1
        if self.blank.count == self.pairs:
            raise CorpusError(
                f"split '{self.name}': every pair has a blank side; nothing is left of it"
            )

    def _look_at(self, index: int, src: str, tgt: str) -> None:
        has_text = (bool(src.strip()), bool(tgt.strip()))
        if not all(has_text):
            self.blank.add(index, ("both sides", "target", "source")[has_text[0] + 2 * has_text[1]])
            self.pair_digests.skip()
            self.src_digests.skip()
            self._ratios.append(math.nan)
            return
        self.pair_digests.add(f"{src}\n{tgt}")
        self.src_digests.add(src)
        self._ratios.append(math.log((len(src) + _SMOOTHING) / (len(tgt) + _SMOOTHING)))
        if src == tgt and not self._one_language and any(map(str.isalpha, src)):
            self.copied.add(index)
        tokens = max(
            side.check_line(index, line) for side, line in zip(self.sides, (src, tgt), strict=True)
        )
        if tokens > self._longest:
            self.long.add(index, f"{tokens:,}")

    @property
    def is_all_copied(self) -> bool:
        """Whether each target is its source."""
        return self.copied.count > 0 and self.copied.count + self.blank.count == self.pairs

    def find_shifted(self) -> Occurrences:
        """Return the pairs whose source goes with another line's target, by stretch."""
        shifts = self._shift.find_shifts()
        return Occurrences(
            sum(shift.end - shift.first for shift in shifts),
            [(shift.first, shift.describe(self.pairs)) for shift in shifts[: Occurrences.SHOWN]],
        )

    def find_length_ratio_outliers(self) -> Occurrences:
        """Return the pairs with an unusual length ratio.

        With r = (source's characters + 10) / (target's + 10), these are the pairs whose r is off
        the training text's median by more than a factor of 3, and log r by more than 6 standard
        deviations, as the median deviation tells them.
        """
        typical = self.training[0] if self.training else self
        known = np.frombuffer(typical._ratios, dtype=np.float32)
        median = np.nanmedian(known)
        deviation = _GAUSSIAN * float(np.nanmedian(np.abs(known - median)))
        off = np.abs(np.frombuffer(self._ratios, dtype=np.float32) - median)
        hits = Occurrences()
        for index in np.flatnonzero(off > max(math.log(_FACTOR), _DEVIATIONS * deviation)).tolist():
            hits.add(index)
        return hits


class Characters:
    """The characters that a vocabulary has."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = map(tokenizer.token, range(len(SPECIALS), tokenizer.text_size))
        self._tokenizer = tokenizer
        self._known = set().union(*(token for token in tokens if not _BYTE.fullmatch(token)))
        self._lowercase = not any(map(str.isupper, self._known))

    def lacks(self, character: str) -> bool:
        """Return whether a character is in no token, so that it is unknown or spelled as bytes."""
        if self._known.issuperset(character.lower() if self._lowercase else character):
            return False
        # A tokenizer may also read it as another one, as SentencePiece reads 'ﬁ' as 'fi'.
        ids = self._tokenizer.encode(character)
        return any(each == UNK_ID or _BYTE.fullmatch(self._tokenizer.token(each)) for each in ids)

"""Forces translations to begin with given prefixes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_cli.base.errors import InputError
from transformer_cli.inference.engine import Constraint, SearchOptions
from transformer_cli.inference.search import pad
from transformer_cli.inference.translation import EncodedLine, Pieces, Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher
from transformer_cli.text.lines import is_blank
from transformer_cli.text.protocol import Tokenizer

Translator = TypeVar("Translator", bound=TextTranslator[Any])

NOT_FORCED = -1
"""The id that pads short prefixes on the right; no token is forced at its positions."""


class PrefixedText(str):
    """A line to translate, together with the prefix that its translation should begin with."""

    prefix: str
    number: int  # the line's number, for messages

    def __new__(cls, text: str, prefix: str, number: int) -> "PrefixedText":
        """Create a line with a prefix; an empty prefix forces nothing."""
        made = super().__new__(cls, text)
        made.prefix, made.number = prefix.strip(), number
        return made


@dataclass(frozen=True)
class PrefixedLine(EncodedLine):
    """An encoded line with its prefix; outputs for its first piece begin with ``prefix_ids``."""

    prefix: str = ""
    prefix_ids: list[int] = field(default_factory=list)


def with_prefixes(translator: Translator) -> Translator:
    """Return a translator whose translations of a ``PrefixedText`` begin with the prefix."""
    return translator.extended_by(_ForcingTranslator)


class _ForcingTranslator(TextTranslator[Any]):
    """A translator that makes the translation of a ``PrefixedText`` begin with its prefix."""

    def is_copied(self, text: str) -> bool:
        """Return whether to copy a line; a line with a prefix is only copied if it is blank."""
        has_prefix = isinstance(text, PrefixedText) and text.prefix
        return is_blank(text) if has_prefix else super().is_copied(text)

    def encode_line(self, text: str) -> EncodedLine:
        """Encode a line and its prefix; raise InputError if the prefix has too many tokens."""
        line = super().encode_line(text)
        if line.is_copied or not isinstance(text, PrefixedText) or not text.prefix:
            return line
        ids = self.tokenizers.encode_prefix(text.prefix, line.source)
        if self.max_positions is not None and len(ids) >= self.max_positions:
            raise InputError(
                f"prefix of line {text.number:,}: {len(ids):,} tokens, but this model's learned "
                f"positions take {self.max_positions - 1:,} (model.max_positions); give a "
                "shorter one"
            )
        return PrefixedLine(text, line.source, line.pieces, prefix=text.prefix, prefix_ids=ids)

    def plan_search(
        self, pieces: Sequence[tuple[EncodedLine, int]], with_scores: bool
    ) -> tuple[list[int], SearchOptions]:
        """Plan a search that forces each line's prefix on the line's first piece."""
        limits, options = super().plan_search(pieces, with_scores)
        starts: list[list[int]] = [
            line.prefix_ids if isinstance(line, PrefixedLine) and number == 0 else []
            for line, number in pieces
        ]
        if not any(starts):
            return limits, options
        # A prefix may contain tokens that are otherwise banned, such as unknown words.
        forced = ForcedPrefixes(starts, options.banned_ids)
        constraints = (*options.constraints, forced)
        options = replace(options, banned_ids=(), constraints=constraints)
        return list(map(max, limits, map(len, starts))), options

    def piece_texts(
        self, line: EncodedLine, pieces: Pieces, tokens: Sequence[str]
    ) -> Iterator[str]:
        """Yield the texts of a translation's pieces; the first begins with the prefix as given."""
        texts = super().piece_texts(line, pieces, tokens)
        if pieces and isinstance(line, PrefixedLine):
            next(texts)
            yield _continue_prefix(self.tokenizers.tgt, line, pieces[0].ids, tokens)
        yield from texts


class PairingTranslator(_ForcingTranslator):
    """A translator that forces prefixes, and gets each line's prefix from ``add_prefixes``."""

    add_prefixes: ClassVar[Callable[[Iterable[Sequence[str]], int], Iterable[Sequence[str]]]]
    """A function (chunks of lines, first line's number) that makes each line a ``PrefixedText``."""

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[str]],
        n_best: int | None = None,
        first_line: int = 1,
        reads_ahead: bool = False,
        watcher: Watcher = NOBODY,
    ) -> Iterator[list[list[Translation]]]:
        """Translate chunks of lines after adding a prefix to each line."""
        prefixed = type(self).add_prefixes(chunks, first_line)
        if reads_ahead:  # find superfluous prefixes of a short text before writing anything
            prefixed = (chunk for chunk, _ in pairwise(chain(prefixed, [()])))
        return super().translate_chunks(prefixed, n_best, first_line, reads_ahead, watcher)


def _continue_prefix(
    tokenizer: Tokenizer, line: PrefixedLine, ids: list[int], tokens: Sequence[str]
) -> str:
    count, tokens = len(line.prefix_ids), tokens[: len(ids)]
    whole = tokenizer.detokenize(ids, tokens)
    start = tokenizer.detokenize(ids[:count], tokens[:count])
    if whole.startswith(start):
        return line.prefix + whole[len(start) :]
    # The next token changes how the prefix is written, for example the spaces around a quote.
    rest = tokenizer.detokenize(ids[count:], tokens[count:])
    return " ".join(filter(None, (line.prefix, rest)))


@dataclass(frozen=True)
class ForcedPrefixes(Constraint):
    """A constraint that makes outputs begin with given prefixes; only they may have banned tokens.

    Forced tokens count towards lengths and log-probabilities. No prefix contains EOS.
    """

    prefixes: Sequence[list[int]]
    banned_ids: tuple[int, ...] = ()

    def of_batch(self, places: Sequence[int], device: Any) -> Callable[[Any, Any, Any], object]:
        """Return a function that allows only a row's forced token; without one, unbanned tokens."""
        forced = pad([self.prefixes[place] for place in places], NOT_FORCED).to(device)
        banned = torch.tensor(self.banned_ids, dtype=torch.int64, device=device)
        return partial(_leave_forced, forced, banned)


def _leave_forced(
    forced: Int[Tensor, "batch prefix"],
    banned: Int[Tensor, " banned"],
    log_probabilities: Float[Tensor, "row token"],
    sentences: Int[Tensor, " row"],
    written: Int[Tensor, "row length"],
) -> None:
    place = written.size(1) - 1
    if place >= forced.size(1):
        log_probabilities.index_fill_(1, banned, float("-inf"))
        return
    next_ids = forced[sentences, place, None]
    is_forced, tokens = next_ids != NOT_FORCED, next_ids.clamp(min=0)
    of_forced = log_probabilities.gather(1, tokens)
    log_probabilities.index_fill_(1, banned, float("-inf"))
    log_probabilities.masked_fill_(is_forced, float("-inf"))
    of_first = log_probabilities.gather(1, tokens)  # unchanged where no token is forced
    log_probabilities.scatter_(1, tokens, of_forced.where(is_forced, of_first))

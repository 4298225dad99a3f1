"""Text in, text out: lines become ids, a search engine translates them, and ids become text."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, Self, TypeVar

from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import LARGEST_BEAM, LONGEST_SOURCE, MOST_BATCH_TOKENS
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.inference.engine import (
    Hypothesis,
    MakeSampler,
    SearchEngine,
    SearchOptions,
)
from transformer_cli.inference.translation import (
    NOBODY,
    EncodedLine,
    LongLine,
    Pieces,
    Reviser,
    Translation,
    Watcher,
    ignore,
    never,
)
from transformer_cli.text.lines import is_blank
from transformer_cli.text.protocol import EncodedSource, Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

EngineT = TypeVar("EngineT", bound=SearchEngine, covariant=True)


def score(hypothesis: Hypothesis, length_penalty: float) -> float:
    """Return what hypotheses of a sentence are ranked by: Wu et al. 2016, equation 14."""
    # Lengths count EOS, so that an empty output has length 1.
    penalty = math.pow((5.0 + len(hypothesis.ids) + 1.0) / 6.0, length_penalty)
    return hypothesis.log_probability / penalty


def rank(hypotheses: Sequence[Hypothesis], length_penalty: float) -> list[Hypothesis]:
    """Return the hypotheses best first; ties stay in the order in which they ended."""
    return sorted(hypotheses, key=lambda one: score(one, length_penalty), reverse=True)


@dataclass(frozen=True)
class TextTranslator(Generic[EngineT]):
    """Translates lines; inference/loading.py makes one of a trained run.

    Attributes:
        engine: holds the model and runs the search.
        tokenizers: the run's.
        config: the run's settings.
        decoding: search settings: the run's, or as changed by ``with_search``.
        max_length: maximum tokens of an output, whatever its source; None: no such limit.
        checkpoint: SHA-256 of the manifest that the weights were loaded by; empty for others.
        writes_unknown: whether the model may write unknown words.
        sampler: draws translations; None: they are searched.
        revisers: what revises translations, besides those that the tokenizers bring.
    """

    engine: EngineT
    tokenizers: Tokenizers
    config: Config
    decoding: DecodingConfig
    max_length: int | None = None
    checkpoint: str = ""
    writes_unknown: bool = False
    sampler: MakeSampler | None = None
    revisers: tuple[Reviser, ...] = ()

    def with_search(
        self,
        beam_size: int | None = None,
        batch_tokens: int | None = None,
        max_length: int | None = None,
        length_penalty: float | None = None,
    ) -> Self:
        """Return a copy with other search settings; None keeps the present value.

        Raises:
            UsageError: one is larger than a configuration's may be.
        """
        if (beam_size or 0) > LARGEST_BEAM:
            raise UsageError(
                f"a beam of {beam_size:,}: at most {LARGEST_BEAM:,}; lower `beam_size` or `n_best`"
            )
        if (batch_tokens or 0) > MOST_BATCH_TOKENS:
            raise UsageError(
                f"{batch_tokens:,} tokens a batch: at most {MOST_BATCH_TOKENS:,}; "
                "lower `batch_tokens`"
            )
        keys = ("beam_size", "batch_tokens", "length_penalty")
        settings = zip(keys, (beam_size, batch_tokens, length_penalty), strict=True)
        changes = {key: value for key, value in settings if value is not None}
        decoding = self.decoding.model_copy(update=changes)
        return replace(self, decoding=decoding, max_length=max_length or self.max_length)

    @property
    def all_revisers(self) -> tuple[Reviser, ...]:
        """The revisers in their order: first those that know what the ids stand for."""
        return (*self.tokenizers.revisers, *self.revisers)

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        """What decides the translation of a line, by name: settings and versions."""
        search = self.decoding.model_dump(mode="json", exclude={"batch_tokens"})
        settings = {"max_length": self.max_length, **search}
        shown = {key: str(value) for key, value in settings.items()} | self.tokenizers.fingerprint
        by = {"transformer-cli": __version__, **self.engine.fingerprint}
        return {"checkpoint": self.checkpoint, **by, **shown}

    # --- lines ------------------------------------------------------------------------------------

    def translate(
        self,
        lines: Sequence[str],
        watcher: Watcher = NOBODY,
    ) -> list[str]:
        """Return the best translation of each line; see ``translate_lines``."""
        found = self.translate_lines(lines, n_best=None, watcher=watcher)
        return [best.text for best, *_ in found]

    def translate_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        n_best: int | None = 1,
        watcher: Watcher = NOBODY,
    ) -> list[list[Translation]]:
        """Return each line's translations, best first: at least one.

        A line without words, such as a number, a URL or a line of invisible characters, is its own
        translation; see ``Tokenizers.has_words``. It is translated if a prefix is forced, or if
        many sources of the training text have no letters.

        A line of more than ``longest_source`` tokens is split into as few pieces as possible, of
        nearly equal length; their translations are joined by spaces.

        Args:
            lines: text without line ends.
            prefixes: what each line's translations begin with, if the line is not blank.
            n_best: maximum number of translations per line, limited by the beam size; None: the
                best one, whose scores nobody needs.
            watcher: hears of each line that is split before any is translated.
        """
        encoded = self.encode_lines(lines, prefixes, watcher.on_long_line)
        return self.translate_encoded(encoded, n_best, watcher)

    def encode_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        on_long_line: Callable[[LongLine], object] = ignore,
    ) -> list[EncodedLine]:
        """Encode lines for ``translate_encoded``; see ``translate_lines``."""
        pairs = zip(lines, prefixes or [""] * len(lines), strict=True)
        encoded = [self.encode_line(line, prefix) for line, prefix in pairs]
        for long_line in self.find_long_lines(len(line.ids) for line in encoded):
            on_long_line(long_line)
        return encoded

    def translate_encoded(
        self,
        encoded: Sequence[EncodedLine],
        n_best: int | None = 1,
        watcher: Watcher = NOBODY,
    ) -> list[list[Translation]]:
        """Return each encoded line's translations; see ``translate_lines``."""
        left = len(encoded)

        def count(pieces: int) -> None:
            nonlocal left
            lines = min(pieces, left)  # a long line has several
            left -= lines
            if lines:
                watcher.progress(lines)

        hypotheses = iter(
            self.search_ids(
                [piece for line in encoded for piece in line.pieces],
                [
                    [] if number else line.prefix_ids
                    for line in encoded
                    for number in range(len(line.pieces))
                ],
                with_scores=n_best is not None,
                progress=count,
                should_stop=watcher.should_stop,
            )
        )
        count(left)  # lines that are not searched, as they are their own translations
        ranked: list[list[Pieces]] = []  # its pieces' best, their second best, and so on
        for line in encoded:
            of_pieces = [next(hypotheses) for _ in line.pieces]
            ranked.append([*zip(*of_pieces, strict=False)][: n_best or 1] or [()])
        written = iter(
            self.write(
                [(line, one) for line, ones in zip(encoded, ranked, strict=True) for one in ones]
            )
        )
        found = [[next(written) for _ in ones] for ones in ranked]
        for reviser in self.all_revisers:
            found = reviser.revise(self, encoded, found, n_best, watcher)
        return found

    def encode_line(self, text: str, prefix: str) -> EncodedLine:
        """Encode a line, cut into as few pieces as have room, which are as equal as can be.

        A line that is its own translation has none.

        Raises:
            UsageError: the tokenizers do not know the tag.
        """
        prefix = prefix.strip()
        if self._is_copied(text, prefix):
            return EncodedLine(EncodedSource(text, []), [], is_copied=True)
        source = self.tokenizers.encode_source(text)
        ids, start = source.ids, source.start
        count = -(-len(ids) // (self.longest_source - len(start)))
        ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
        pieces = [[*start, *ids[begin:end], EOS_ID] for begin, end in pairwise(ends)]
        prefix_ids = self.tokenizers.encode_prefix(prefix, source) if prefix else []
        return EncodedLine(source, pieces, prefix, prefix_ids)

    def _is_copied(self, text: str, prefix: str) -> bool:
        if is_blank(text):
            return True
        return not (prefix or self.tokenizers.letterless or self.tokenizers.has_words(text))

    def write(self, found: Sequence[tuple[EncodedLine, Pieces]]) -> list[Translation]:
        """Write what was found for lines as text."""
        return [self.write_line(line, pieces) for line, pieces in found]

    def write_line(
        self, line: EncodedLine, pieces: Pieces, tokens: Sequence[str] | None = None
    ) -> Translation:
        """Write one translation as text.

        Args:
            line: what is translated.
            pieces: what was found.
            tokens: of the translation, where others than ``Tokenizer.filled_tokens`` are written.
        """
        if line.is_copied:
            return Translation(line.text.strip())
        source, tgt = line.source, self.tokenizers.tgt
        ids = [number for piece in pieces for number in piece.ids]
        if tokens is None:
            is_needed = tgt.is_word_level or source.values
            tokens = tgt.filled_tokens(ids, source.values) if is_needed else []
        length_penalty = self.decoding.length_penalty
        return Translation(
            " ".join(filter(None, _piece_texts(tgt, line, pieces, tokens))),
            sum((piece.log_probability for piece in pieces), start=0.0),
            sum((score(piece, length_penalty) for piece in pieces), start=0.0),
            tokens=len(ids) + len(pieces),
            pieces=pieces,
        )

    # --- ids --------------------------------------------------------------------------------------

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        with_scores: bool = False,
        progress: Callable[[int], object] = ignore,
        should_stop: Callable[[], bool] = never,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first; see ``SearchEngine.search``."""
        starts = prefixes or [[] for _ in sources]
        unknown = () if self.writes_unknown else (UNK_ID,)
        options = SearchOptions(
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            banned_ids=(*unknown, BOS_ID, PAD_ID, *self.tokenizers.tgt.source_ids),
            beam_size=self.decoding.beam_size,
            sampler=self.sampler,
            with_scores=with_scores,
        )
        found = self.engine.search(
            sources,
            starts,
            list(map(self._max_output_tokens, sources, starts)),
            options,
            self.decoding.batch_tokens,
            progress,
            should_stop,
        )
        return [rank(hypotheses, self.decoding.length_penalty) for hypotheses in found]

    # --- limits -----------------------------------------------------------------------------------

    @property
    def max_positions(self) -> int | None:
        """Number of learned positions, BOS and EOS included; None: no such limit."""
        model = self.config.model
        return model.max_positions if model.positions == "learned" else None

    @property
    def longest_source(self) -> int:
        """Maximum number of tokens, without EOS, of a source that is not split."""
        limit = self.max_positions
        return LONGEST_SOURCE if limit is None else min(LONGEST_SOURCE, limit - 1)

    def _max_output_tokens(self, source: list[int], prefix: list[int]) -> int:
        # A half-trained model repeats itself for ever; a translation is seldom twice its source.
        limits = [int((len(source) - 1) * self.decoding.max_length_ratio) + 10]
        limits += [limit for limit in (self.max_length, self.max_positions) if limit is not None]
        return max(min(limits), len(prefix))

    def find_long_lines(self, lengths: Iterable[int]) -> Iterator[LongLine]:
        """Yield the lines that must be split, given the number of tokens of each line."""
        for line, tokens in enumerate(lengths, start=1):
            if tokens > self.longest_source:
                yield LongLine(line, int(tokens), int(-(-tokens // self.longest_source)))

    def check_prefix(self, src: str, prefix: str, line: int) -> None:
        """Make sure that there are positions enough for the prefix of line ``line``, ``src``."""
        if self.max_positions is not None:
            source = self.tokenizers.encode_source(src)
            tokens = len(self.tokenizers.encode_prefix(prefix, source))
            if tokens >= self.max_positions:
                raise InputError(
                    f"prefix of line {line:,}: {tokens:,} tokens, but this model's learned "
                    f"positions take {self.max_positions - 1:,} (model.max_positions); give a "
                    "shorter one"
                )


# --- ids to text ----------------------------------------------------------------------------------


def _piece_texts(
    tokenizer: Tokenizer, line: EncodedLine, pieces: Pieces, tokens: Sequence[str]
) -> Iterator[str]:
    end = 0
    for number, piece in enumerate(pieces):
        start, end = end, end + len(piece.ids)
        if number == 0 and line.prefix:
            yield _continue_prefix(tokenizer, line, piece.ids, tokens[start:end])
        else:
            yield tokenizer.detokenize(piece.ids, tokens[start:end])


def _continue_prefix(
    tokenizer: Tokenizer, line: EncodedLine, ids: list[int], tokens: Sequence[str]
) -> str:
    """Return the text of a hypothesis, which begins with the prefix as its author wrote it."""
    count = len(line.prefix_ids)
    whole = tokenizer.detokenize(ids, tokens)
    start = tokenizer.detokenize(ids[:count], tokens[:count])
    if whole.startswith(start):
        return line.prefix + whole[len(start) :]
    # What follows changes how the prefix is written, a quotation mark's spaces say.
    rest = tokenizer.detokenize(ids[count:], tokens[count:])
    return " ".join(filter(None, (line.prefix, rest)))

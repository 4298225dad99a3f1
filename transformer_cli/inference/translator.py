"""Text in, text out: lines become ids, a search engine translates them, and ids become text."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config
from transformer_cli.inference.engine import Hypothesis, MakeSampler, SearchEngine, SearchOptions
from transformer_cli.inference.translation import (
    EncodedLine,
    Notes,
    Pieces,
    Reviser,
    Translation,
)
from transformer_cli.text.lines import is_blank
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, UNK_ID, EncodedSource, Tokenizers

EngineT = TypeVar("EngineT", bound=SearchEngine, covariant=True)

CHUNK_LINES = 1024
"""Number of lines that are read, sorted by length and translated together on a CPU."""
_GPU_CHUNKS = 4  # a GPU gets this many times as many lines, for larger batches


def ignore(_: object) -> None:
    """Ignore a report, for example of progress."""


def never() -> bool:
    """Return False, so that nothing is stopped; the default of ``Watcher.should_stop``."""
    return False


class Watcher(NamedTuple):
    """Callbacks that follow the progress of translations."""

    progress: Callable[[int], object] = ignore
    """Called with the number of lines just finished."""
    on_long_line: Callable[[str], object] = ignore
    """Called with a message about each line that is translated in pieces."""
    should_stop: Callable[[], bool] = never
    """Called before each batch; once it returns True, the remaining translations are empty."""


NOBODY = Watcher()


def score(hypothesis: Hypothesis, length_penalty: float) -> float:
    """Return the score that ranks the hypotheses of a sentence: Wu et al. 2016, equation 14."""
    # Lengths count EOS, so that an empty output has length 1.
    penalty = math.pow((5.0 + len(hypothesis.ids) + 1.0) / 6.0, length_penalty)
    return hypothesis.log_probability / penalty


def rank(hypotheses: Sequence[Hypothesis], length_penalty: float) -> list[Hypothesis]:
    """Return the hypotheses, best first; ties stay in the order in which they ended."""
    return sorted(hypotheses, key=lambda one: score(one, length_penalty), reverse=True)


@dataclass(frozen=True)
class TextTranslator(Generic[EngineT]):
    """A translator of lines; inference/loading.py makes one from a trained run.

    Attributes:
        engine: holds the model and runs the search.
        tokenizers: the run's tokenizers.
        config: the run's settings.
        decoding: the run's search settings, with the changes made by ``with_search``.
        max_length: maximum number of tokens of any output; None means no such limit.
        checkpoint: SHA-256 of the checkpoint's manifest; empty for weights without a manifest.
        writes_unknown: whether the model may write unknown words.
        sampler: draws translations at random; if None, the likeliest are searched for.
        revisers: objects that correct translations, called after those of the tokenizers.
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
    n_best: ClassVar[int | None] = None
    """How many scored translations ``translate`` needs of a line, or None for one unscored."""

    def with_search(
        self,
        beam_size: int | None = None,
        batch_tokens: int | None = None,
        max_length: int | None = None,
        **others: Any,
    ) -> Self:
        """Return a copy with other ``decoding`` settings; None keeps the current value.

        Raises:
            UsageError: a value is larger than a config may set.
        """
        given = {"beam_size": beam_size, "batch_tokens": batch_tokens, **others}
        for name, value in given.items():
            _, most = DecodingConfig.bounds(name)
            if value is not None and most is not None and value > most:
                raise UsageError(f"`{name}` {value:,} is too large; use at most {most:,}")
        max_length = max_length or self.max_length
        return replace(self, decoding=self.decoding.changed(given), max_length=max_length)

    def extended_by(self, kind: "type[TextTranslator[Any]]", **attributes: Any) -> Self:
        """Return a copy that also has the methods of ``kind``, a subclass from an extension.

        The class of the copy also gets the ``attributes``.
        """
        mixed: type[Self] = type(kind.__name__, (kind, type(self)), attributes)
        return mixed(**{each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def all_revisers(self) -> tuple[Reviser, ...]:
        """All revisers, in the order they run; those of the tokenizers come first."""
        both = (*self.tokenizers.revisers, *self.revisers)
        return tuple(sorted(both, key=lambda reviser: reviser.comes_last))

    def new_notes(self) -> list[Notes]:
        """Return notes of the revisers for the translations of one text."""
        return [notes for each in self.all_revisers if (notes := each.notes()) is not None]

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        """The settings and versions that determine a line's translation, keyed by name."""
        search = self.decoding.model_dump(mode="json", exclude={"batch_tokens"})
        settings = {"max_length": self.max_length, **search}
        shown = {key: str(value) for key, value in settings.items()} | self.tokenizers.fingerprint
        by = {"transformer-cli": __version__, **self.engine.fingerprint}
        return {"checkpoint": self.checkpoint, **by, **shown}

    # --- lines ------------------------------------------------------------------------------------

    def translate(self, lines: Sequence[str], watcher: Watcher = NOBODY) -> list[str]:
        """Return the best translation of each line; see ``translate_lines``."""
        found = self.translate_lines(lines, n_best=None, watcher=watcher)
        return [best.text for best, *_ in found]

    def translate_lines(
        self, lines: Sequence[str], n_best: int | None = 1, watcher: Watcher = NOBODY
    ) -> list[list[Translation]]:
        """Return each line's translations, at least one, best first.

        A line without words, such as a number, a URL or a line of invisible characters, is its own
        translation; see ``Tokenizers.has_words``. But if many source lines in training have
        no letters, the model also translates such lines, except for invisible ones.

        A line of more than ``longest_source`` tokens is split into as few pieces as possible, with
        nearly equal lengths. The translations of the pieces are joined with spaces.

        Args:
            lines: text without line ends.
            n_best: maximum number of translations per line, limited by the beam size; None: only
                the best one, without scores.
            watcher: gets a message about each line that is split, before the translation starts.
        """
        return self.translate_encoded(self.encode_lines(lines, watcher), n_best, watcher)

    @property
    def chunk_lines(self) -> int:
        """The number of lines that should be translated together."""
        return CHUNK_LINES * (_GPU_CHUNKS if self.engine.is_on_gpu else 1)

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[str]],
        n_best: int | None = None,
        first_line: int = 1,
        reads_ahead: bool = False,
        watcher: Watcher = NOBODY,
    ) -> Iterator[list[list[Translation]]]:
        """Yield the translations of each chunk's lines, chunk by chunk.

        Args:
            chunks: lists of ``chunk_lines`` lines.
            n_best: see ``translate_lines``.
            first_line: the number of the first line, for messages.
            reads_ahead: whether an engine may read chunks before it has translated earlier ones;
                False for a pipe, because its writer may wait for translations.
            watcher: see ``translate_lines``.
        """
        for lines in chunks:
            encoded = self.encode_lines(lines, watcher, first_line)
            first_line += len(lines)
            yield self.translate_encoded(encoded, n_best, watcher)

    def to_line(self, number: int, line: str, found: Sequence[Translation]) -> str:
        """Return what ``translate`` writes for a line; ``number`` counts lines from 1."""
        return found[0].text

    def encode_lines(
        self, lines: Sequence[str], watcher: Watcher = NOBODY, first_line: int = 1
    ) -> list[EncodedLine]:
        """Encode lines for ``translate_encoded``; see ``translate_lines``."""
        encoded = [self.encode_line(line) for line in lines]
        lengths = (sum(len(piece) - 1 for piece in line.pieces) for line in encoded)
        self.report_long_lines(lengths, watcher, first_line)
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
            lines = min(pieces, left)  # a long line has several pieces
            left -= lines
            if lines:
                watcher.progress(lines)

        pieces = [(line, number) for line in encoded for number in range(len(line.pieces))]
        searched = self.search_pieces(pieces, n_best is not None, count, watcher.should_stop)
        hypotheses = iter(searched)
        count(left)  # the lines without a search, which are their own translations
        ranked: list[list[Pieces]] = []  # the best of each piece, the second best, and so on
        for line in encoded:
            of_pieces = [next(hypotheses) for _ in line.pieces]
            ranked.append([*zip(*of_pieces, strict=False)][: n_best or 1] or [()])
        chosen = [(line, one) for line, ones in zip(encoded, ranked, strict=True) for one in ones]
        written = iter(self.write(chosen))
        found = [[next(written) for _ in ones] for ones in ranked]
        for reviser in self.all_revisers:
            found = reviser.revise(self, encoded, found, n_best, watcher)
        return found

    def encode_line(self, text: str) -> EncodedLine:
        """Encode a line, and cut it into as few pieces as possible, with nearly equal lengths.

        A line that is its own translation has no pieces. Raise UsageError if the tokenizers do not
        know the tag of the line.
        """
        if self.is_copied(text):
            return EncodedLine(text, EncodedSource(text, []), [], is_copied=True)
        source = self.tokenizers.encode_source(text)
        ids, start = source.ids, source.start
        count = -(-len(ids) // (self.longest_source - len(start)))
        ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
        pieces = [[*start, *ids[begin:end], EOS_ID] for begin, end in pairwise(ends)]
        return EncodedLine(text, source, pieces)

    def is_copied(self, text: str) -> bool:
        """Return whether a line is its own translation; ``translate_lines`` says when."""
        if is_blank(text):
            return True
        return not (self.tokenizers.letterless or self.tokenizers.has_words(text))

    def write(self, found: Sequence[tuple[EncodedLine, Pieces]]) -> list[Translation]:
        """Convert translations from ids to text; see ``write_line``."""
        return [self.write_line(line, pieces) for line, pieces in found]

    def write_line(
        self, line: EncodedLine, pieces: Pieces, tokens: Sequence[str] | None = None
    ) -> Translation:
        """Convert one translation, a hypothesis for each piece of a line, from ids to text.

        If given, ``tokens`` are written instead of those of ``Tokenizer.filled_tokens``.
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
            " ".join(filter(None, self.piece_texts(line, pieces, tokens))),
            sum((piece.log_probability for piece in pieces), start=0.0),
            sum((score(piece, length_penalty) for piece in pieces), start=0.0),
            tokens=len(ids) + len(pieces),
            pieces=pieces,
        )

    def piece_texts(
        self, line: EncodedLine, pieces: Pieces, tokens: Sequence[str]
    ) -> Iterator[str]:
        """Yield the text of each piece of a translation; see ``write_line``."""
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece.ids)
            yield self.tokenizers.tgt.detokenize(piece.ids, tokens[start:end])

    # --- ids --------------------------------------------------------------------------------------

    def search_pieces(
        self,
        pieces: Sequence[tuple[EncodedLine, int]],
        with_scores: bool = False,
        progress: Callable[[int], object] = ignore,
        should_stop: Callable[[], bool] = never,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each piece, best first; see ``SearchEngine.search``.

        A piece is given as its line and its index in ``EncodedLine.pieces``.
        """
        sources = [line.pieces[number] for line, number in pieces]
        limits, options = self.plan_search(pieces, with_scores)
        batch_tokens = self.decoding.batch_tokens
        found = self.engine.search(sources, limits, options, batch_tokens, progress, should_stop)
        return [rank(hypotheses, self.decoding.length_penalty) for hypotheses in found]

    def plan_search(
        self, pieces: Sequence[tuple[EncodedLine, int]], with_scores: bool
    ) -> tuple[list[int], SearchOptions]:
        """Return the maximum number of output tokens of each piece, and the search options."""
        unknown = () if self.writes_unknown else (UNK_ID,)
        options = SearchOptions(
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            banned_ids=(*unknown, BOS_ID, PAD_ID, *self.tokenizers.tgt.source_ids),
            decoding=self.decoding,
            sampler=self.sampler,
            with_scores=with_scores,
        )
        return [self._max_output_tokens(line.pieces[number]) for line, number in pieces], options

    # --- limits -----------------------------------------------------------------------------------

    @property
    def max_positions(self) -> int | None:
        """The number of learned positions, BOS and EOS included; None if they are sinusoidal."""
        model = self.config.model
        return model.max_positions if model.positions == "learned" else None

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens, without EOS, of a source line that is not split."""
        limit = self.max_positions
        return LONGEST_SOURCE if limit is None else min(LONGEST_SOURCE, limit - 1)

    def _max_output_tokens(self, source: list[int]) -> int:
        # A half-trained model may repeat itself forever. Translations are seldom twice as long as
        # their sources.
        longest = int((len(source) - 1) * self.decoding.max_length_ratio) + 10
        return min([longest, *filter(None, (self.max_length, self.max_positions))])

    def report_long_lines(
        self, lengths: Iterable[int], watcher: Watcher, first_line: int = 1
    ) -> None:
        """Tell ``watcher`` which lines must be split; ``lengths`` has their numbers of tokens."""
        for line, tokens in enumerate(lengths, first_line):
            if tokens > self.longest_source:
                pieces = -(-tokens // self.longest_source)
                watcher.on_long_line(
                    f"line {line}: {tokens:,} tokens, translated in {pieces:,} pieces"
                )

"""Text in, text out: lines become ids, a search engine translates them, and ids become text."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Generic, Self, TypeVar

from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import LARGEST_BEAM, LONGEST_SOURCE, MOST_BATCH_TOKENS
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.inference.alignment import align_words
from transformer_cli.inference.engine import Hypothesis, SearchEngine, SearchOptions
from transformer_cli.text.protocol import EncodedSource, Tokenizer, Tokenizers, Translation
from transformer_cli.text.scripts import are_close, is_blank
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SECOND_BEAM = 8
"""Beam of the second search for a translation whose first one lacks something of its source."""

EngineT = TypeVar("EngineT", bound=SearchEngine, covariant=True)
Progress = Callable[[int], object]
"""Called with the number of lines, or sources, just finished."""
ShouldStop = Callable[[], bool]
"""Called before each batch; once it returns True, the rest is left empty."""


def ignore(what: object) -> None:
    """Ignore a report, of progress say."""


def never() -> bool:
    """Return False: do not stop."""
    return False


@dataclass(frozen=True)
class LongLine:
    """A line, numbered from 1, that is too long to be translated as one."""

    line: int
    tokens: int
    pieces: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.tokens:,} tokens, translated in {self.pieces:,} pieces"


@dataclass(frozen=True)
class EncodedLine:
    """A line to be translated, as ids.

    Attributes:
        source: the line, with its ids and what the tokenizers remember of it.
        pieces: its ids, cut where it is too long; none if it is blank. Each begins with the ids of
            ``Tokenizers.start``, and ends with EOS.
        prefix: what the translation begins with.
        prefix_ids: its ids, which the first piece's outputs begin with.
        tag: the source's, if it has one.
        is_copied: whether the line is its own translation; then there are no pieces.
    """

    source: EncodedSource
    pieces: list[list[int]]
    prefix: str = ""
    prefix_ids: list[int] = field(default_factory=list)
    tag: str | None = None
    is_copied: bool = False

    @property
    def text(self) -> str:
        """The source text."""
        return self.source.line

    @property
    def ids(self) -> list[int]:
        """Ids of all pieces, without EOS."""
        return [number for piece in self.pieces for number in piece[:-1]]


@dataclass(frozen=True, eq=False)
class LineHypothesis:
    """One translation of a line: a hypothesis for each of its pieces."""

    line: EncodedLine
    pieces: tuple[Hypothesis, ...]

    @property
    def ids(self) -> list[int]:
        """Ids of all pieces."""
        return [number for piece in self.pieces for number in piece.ids]


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
        replace_unk: whether the model may write unknown words; the source words that they are
            aligned to are then copied for them.
        sample_seed: draw translations from the distribution instead of searching; None: search.
    """

    engine: EngineT
    tokenizers: Tokenizers
    config: Config
    decoding: DecodingConfig
    max_length: int | None = None
    checkpoint: str = ""
    replace_unk: bool = False
    sample_seed: int | None = None

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

    def with_unk_replacement(self) -> Self:
        """Return a copy that copies source words for unknown words, if the target is in words."""
        if not self.tokenizers.tgt.is_word_level:
            raise UsageError(
                "needs a word-level tokenizer; this model writes subwords, which can spell any word"
            )
        return replace(self, replace_unk=True)

    def with_sampling(self, seed: int) -> Self:
        """Return a copy that samples."""
        return replace(self.with_search(beam_size=1), sample_seed=seed)

    @property
    def may_copy(self) -> bool:
        """Whether a translation that is its source may be right.

        So it is between closely related languages, and after a training text with many copies.
        """
        data = self.config.data
        return self.tokenizers.copied or are_close(data.src_lang, data.tgt_lang)

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        """What decides the translation of a line, by name: settings and versions."""
        search = self.decoding.model_dump(mode="json", exclude={"batch_tokens"})
        settings = {"max_length": self.max_length, **search}
        given = {"replace_unk": self.replace_unk or None, "sample_seed": self.sample_seed}
        settings |= {key: value for key, value in given.items() if value is not None}
        shown = {key: str(value) for key, value in settings.items()} | self.tokenizers.fingerprint
        by = {"transformer-cli": __version__, **self.engine.fingerprint}
        return {"checkpoint": self.checkpoint, **by, **shown}

    # --- lines ------------------------------------------------------------------------------------

    def translate(
        self,
        lines: Sequence[str],
        progress: Progress = ignore,
        on_long_line: Callable[[LongLine], object] = ignore,
        should_stop: ShouldStop = never,
        tags: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Return the best translation of each line; see ``translate_lines``."""
        callbacks = progress, on_long_line, should_stop
        return [
            best.text
            for best, *_ in self.translate_lines(lines, None, None, False, *callbacks, tags)
        ]

    def translate_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        n_best: int | None = 1,
        with_alignments: bool = False,
        progress: Progress = ignore,
        on_long_line: Callable[[LongLine], object] = ignore,
        should_stop: ShouldStop = never,
        tags: Sequence[str | None] | None = None,
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
            with_alignments: whether to align the words of the translations.
            progress: see ``Progress``.
            on_long_line: called with each line that is split, before any is translated.
            should_stop: see ``ShouldStop``.
            tags: each line's, which the tokenizers know; see ``Tokenizers.start``.
        """
        encoded = self.encode_lines(lines, prefixes, on_long_line, tags)
        return self.translate_encoded(encoded, n_best, with_alignments, progress, should_stop)

    def encode_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        on_long_line: Callable[[LongLine], object] = ignore,
        tags: Sequence[str | None] | None = None,
    ) -> list[EncodedLine]:
        """Encode lines for ``translate_encoded``; see ``translate_lines``."""
        prefixes, tags = prefixes or [""] * len(lines), tags or [None] * len(lines)
        encoded = [self.encode_line(*line) for line in zip(lines, prefixes, tags, strict=True)]
        for long_line in self.find_long_lines(len(line.ids) for line in encoded):
            on_long_line(long_line)
        return encoded

    def translate_encoded(
        self,
        encoded: Sequence[EncodedLine],
        n_best: int | None = 1,
        with_alignments: bool = False,
        progress: Progress = ignore,
        should_stop: ShouldStop = never,
    ) -> list[list[Translation]]:
        """Return each encoded line's translations; see ``translate_lines``."""
        left = len(encoded)

        def count(pieces: int) -> None:
            nonlocal left
            lines = min(pieces, left)  # a long line has several
            left -= lines
            if lines:
                progress(lines)

        found = self._search_lines(encoded, n_best, with_alignments, count, should_stop)
        count(left)  # lines that are not searched, as they are their own translations
        if (n_best or 1) > 1 or self.sample_seed is not None:
            return found

        def again(tokenizers: Tokenizers, places: Sequence[int]) -> list[list[Translation]]:
            other = replace(self, tokenizers=tokenizers)
            lines = [encoded[place] for place in places]
            lines = [other.encode_line(line.text, line.prefix, line.tag) for line in lines]
            return other.translate_encoded(lines, n_best, with_alignments, ignore, should_stop)

        best = [(line.text, one.text) for line, (one, *_) in zip(encoded, found, strict=True)]
        for place, translations in self.tokenizers.translate_again(best, again):
            found[place] = translations
        return found

    def _search_lines(
        self,
        encoded: Sequence[EncodedLine],
        n_best: int | None,
        with_alignments: bool,
        progress: Progress,
        should_stop: ShouldStop,
    ) -> list[list[Translation]]:
        owners = [line for line in encoded for _ in line.pieces]
        sources = [piece for line in encoded for piece in line.pieces]
        starts = [
            line.prefix_ids if piece is line.pieces[0] else []
            for line in encoded
            for piece in line.pieces
        ]
        has_scores, n_best = n_best is not None, n_best or 1
        options = progress, should_stop, n_best == 1, has_scores
        found = iter(self.search_ids(sources, starts, *options, owners))
        ranked = []  # a line's hypotheses: its pieces' best, their second best, and so on
        for line in encoded:
            of_pieces = [next(found) for _ in line.pieces]
            joined = [LineHypothesis(line, pieces) for pieces in zip(*of_pieces, strict=False)]
            without = line if line.is_copied else EncodedLine(line.source, [])
            nothing = LineHypothesis(without, ())
            ranked.append(joined[:n_best] or [nothing])
        aligned = self._align(ranked, with_alignments)
        return [
            [self._to_translation(one, aligned.get(one, ()), with_alignments) for one in of_line]
            for of_line in ranked
        ]

    def encode_line(self, text: str, prefix: str, tag: str | None = None) -> EncodedLine:
        """Encode a line, cut into as few pieces as have room, which are as equal as can be.

        A line that is its own translation has none.

        Raises:
            UsageError: the tokenizers do not know the tag.
        """
        prefix = prefix.strip()
        if self._is_copied(text, prefix):
            return EncodedLine(EncodedSource(text, []), [], tag=tag, is_copied=True)
        source, start = self.tokenizers.encode_source(text), self.tokenizers.start(tag)
        ids = source.ids
        count = -(-len(ids) // (self.longest_source - len(start)))
        ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
        pieces = [[*start, *ids[begin:end], EOS_ID] for begin, end in pairwise(ends)]
        prefix_ids = self.tokenizers.encode_prefix(prefix, source) if prefix else []
        return EncodedLine(source, pieces, prefix, prefix_ids, tag)

    def _is_copied(self, text: str, prefix: str) -> bool:
        if is_blank(text):
            return True
        return not (prefix or self.tokenizers.letterless or self.tokenizers.has_words(text))

    def _align(
        self, ranked: Sequence[Sequence[LineHypothesis]], with_alignments: bool
    ) -> dict[LineHypothesis, list[int]]:
        """Align the tokens of the hypotheses if asked, and otherwise of those with unknown words.

        Of each token there is the place in the line of the token that it is aligned to.
        """
        needed = [
            one
            for of_line in ranked
            for one in of_line
            if with_alignments
            or (self.replace_unk and UNK_ID in one.ids[len(one.line.prefix_ids) :])
        ]
        if not needed:
            return {}
        of_pieces = iter(
            self.engine.align(
                [source for one in needed for source in one.line.pieces],
                [piece.ids for one in needed for piece in one.pieces],
                self.decoding.batch_tokens,
            )
        )
        aligned = {}
        for one in needed:
            starts = accumulate((len(piece) - 1 for piece in one.line.pieces), initial=0)
            aligned[one] = [
                start + place
                for _, start in zip(one.pieces, starts, strict=False)
                for place in next(of_pieces)
            ]
        return aligned

    def _to_translation(
        self, hypothesis: LineHypothesis, aligned: Sequence[int], with_alignment: bool
    ) -> Translation:
        """Write a hypothesis as text.

        ``aligned`` are the source tokens that its tokens are aligned to, if that was needed.
        """
        line, ids, tgt = hypothesis.line, hypothesis.ids, self.tokenizers.tgt
        if line.is_copied:
            text = line.text.strip()
            links = ((place, place) for place in range(len(text.split())))
            return Translation(text, 0.0, 0.0, tuple(links) if with_alignment else (), 0)
        source = line.source
        src_tokens = self.tokenizers.source_tokens(source, line.ids) if aligned else []
        needed = with_alignment or tgt.is_word_level or source.values
        tgt_tokens = tgt.filled_tokens(ids, source.values) if needed else []
        if self.replace_unk:
            for place, number in enumerate(ids):
                if number == UNK_ID and place >= len(line.prefix_ids):
                    # Tokens that stand for no text are no words.
                    tgt_tokens[place] = src_tokens[aligned[place]] or tgt_tokens[place]
        text = " ".join(filter(None, _piece_texts(tgt, hypothesis, tgt_tokens)))
        pieces, length_penalty = hypothesis.pieces, self.decoding.length_penalty
        return Translation(
            text,
            sum((piece.log_probability for piece in pieces), start=0.0),
            sum((score(piece, length_penalty) for piece in pieces), start=0.0),
            align_words(line.text, src_tokens, text, tgt_tokens, aligned) if with_alignment else (),
            len(ids) + len(pieces),
        )

    # --- ids --------------------------------------------------------------------------------------

    def translate_ids(
        self, sources: Sequence[list[int]], progress: Progress = ignore
    ) -> list[list[int]]:
        """Return each source's best translation, empty for an empty one; see ``search_ids``."""
        outputs = self.search_ids(sources, None, progress)
        return [hypotheses[0].ids if hypotheses else [] for hypotheses in outputs]

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        progress: Progress = ignore,
        should_stop: ShouldStop = never,
        searches_again: bool = True,
        with_scores: bool = False,
        lines: Sequence[EncodedLine] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first; see ``SearchEngine.search``.

        With ``searches_again``, a source whose best hypothesis has lost something is searched
        again, with a beam of at least ``SECOND_BEAM``, for the best of those that have lost the
        least; see ``Tokenizers.count_losses``. ``lines`` are those that the sources are pieces of.
        """
        starts = prefixes or [[] for _ in sources]
        limits = list(map(self._max_output_tokens, sources, starts))
        unknown = () if self.replace_unk else (UNK_ID,)
        options = SearchOptions(
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            banned_ids=(*unknown, BOS_ID, PAD_ID, *self.tokenizers.tgt.source_ids),
            beam_size=self.decoding.beam_size,
            sample_seed=self.sample_seed,
            with_scores=with_scores,
        )

        def search(
            places: Sequence[int], options: SearchOptions, progress: Progress
        ) -> list[list[Hypothesis]]:
            found = self.engine.search(
                [sources[place] for place in places],
                [starts[place] for place in places],
                [limits[place] for place in places],
                options,
                self.decoding.batch_tokens,
                progress,
                should_stop,
            )
            return [rank(hypotheses, self.decoding.length_penalty) for hypotheses in found]

        outputs = search(range(len(sources)), options, progress)
        if not searches_again or self.sample_seed is not None:
            return outputs

        def find_losses(place: int, one: Hypothesis) -> tuple[int, ...]:
            line = lines[place] if lines is not None else None
            whole = line.source if line is not None and len(line.pieces) == 1 else None
            return self.tokenizers.count_losses(sources[place], one.ids, whole)

        places = [
            place
            for place, hypotheses in enumerate(outputs)
            if hypotheses and any(find_losses(place, hypotheses[0]))
        ]
        if places:
            wider = replace(options, beam_size=max(SECOND_BEAM, options.beam_size))
            for place, hypotheses in zip(places, search(places, wider, ignore), strict=True):
                candidates = [outputs[place][0], *hypotheses]
                outputs[place] = [min(candidates, key=partial(find_losses, place))]
        return outputs

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
    tokenizer: Tokenizer, hypothesis: LineHypothesis, tokens: Sequence[str]
) -> Iterator[str]:
    end = 0
    for number, piece in enumerate(hypothesis.pieces):
        start, end = end, end + len(piece.ids)
        if number == 0 and hypothesis.line.prefix:
            yield _continue_prefix(tokenizer, hypothesis.line, piece.ids, tokens[start:end])
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

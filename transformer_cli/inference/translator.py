"""Text in, text out: tokenizers, a search engine, and how to search; of lists and of streams."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from typing import Generic, Self, TypeVar

from transformer_cli.config.choices import LARGEST_BEAM, LONGEST_SOURCE, MOST_BATCH_TOKENS
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.errors import InputError, UsageError
from transformer_cli.inference.engine import Hypothesis, SearchEngine, SearchOptions
from transformer_cli.inference.lines import (
    PLAIN,
    LineHypothesis,
    LongLine,
    OutputFormat,
    TranslatedLine,
    Translation,
    encode_line,
    join_hypotheses,
    to_translation,
)
from transformer_cli.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.reserved import compare_placeholders
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SLOT_BEAM = 8
"""Beam of the second search for a translation with its source's placeholders."""
CHUNK_LINES = 4096
"""Lines read, sorted by length and translated together when translating a stream."""

EngineT = TypeVar("EngineT", bound=SearchEngine, covariant=True)
Progress = Callable[[int], object] | None
"""Called with the number of sentences, or pieces of long lines, just finished."""
ShouldStop = Callable[[], bool] | None
"""Called before each batch; once it returns True, the rest is left empty."""


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
        tag: put before each source; None: no tag.
    """

    engine: EngineT
    tokenizers: Tokenizers
    config: Config
    decoding: DecodingConfig
    max_length: int | None = None
    checkpoint: str = ""
    replace_unk: bool = False
    sample_seed: int | None = None
    tag: str | None = None

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
        if beam_size is not None and beam_size > LARGEST_BEAM:
            raise UsageError(
                f"a beam of {beam_size:,}: at most {LARGEST_BEAM:,}; lower --beam-size or --n-best"
            )
        if batch_tokens is not None and batch_tokens > MOST_BATCH_TOKENS:
            raise UsageError(
                f"{batch_tokens:,} tokens a batch: at most {MOST_BATCH_TOKENS:,}; "
                "lower --batch-tokens"
            )
        settings = {
            "beam_size": beam_size,
            "batch_tokens": batch_tokens,
            "length_penalty": length_penalty,
        }
        changes = {key: value for key, value in settings.items() if value is not None}
        return replace(
            self,
            decoding=self.decoding.model_copy(update=changes),
            max_length=max_length or self.max_length,
        )

    def with_unk_replacement(self) -> Self:
        """Return a copy that copies source words for unknown words.

        Raises:
            UsageError: its target tokenizer is not word-level.
        """
        if not self.tokenizers.tgt.is_word_level:
            raise UsageError(
                "needs a word-level tokenizer; this model writes subwords, which can spell any word"
            )
        return replace(self, replace_unk=True)

    def with_sampling(self, seed: int) -> Self:
        """Return a copy that samples."""
        return replace(self.with_search(beam_size=1), sample_seed=seed)

    def with_tag(self, tag: str | None) -> Self:
        """Return a copy that puts a tag before each source.

        Raises:
            UsageError: the tokenizers have no such tag.
        """
        if tag is not None:
            self.tokenizers.tag_id(tag)
        return replace(self, tag=tag)

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        """Settings that decide the translation of a line, by name."""
        search = self.decoding.model_dump(mode="json", exclude={"batch_tokens"})
        return {
            "checkpoint": self.checkpoint,
            **self.engine.fingerprint,
            "max_length": str(self.max_length),
            **{key: str(value) for key, value in search.items()},
            **({"replace_unk": "True"} if self.replace_unk else {}),
            **({"sample_seed": str(self.sample_seed)} if self.sample_seed is not None else {}),
            **({"tag": self.tag} if self.tag is not None else {}),
        }

    # --- lines ------------------------------------------------------------------------------------

    def translate(
        self,
        lines: Sequence[str],
        progress: Progress = None,
        on_long_line: Callable[[LongLine], object] | None = None,
        should_stop: ShouldStop = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Return the best translation of each line; see ``translate_lines``."""
        translated = self.translate_lines(
            lines, None, 1, False, progress, on_long_line, should_stop, tags
        )
        return [best.text for best, *_ in translated]

    def translate_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        n_best: int = 1,
        with_alignments: bool = False,
        progress: Progress = None,
        on_long_line: Callable[[LongLine], object] | None = None,
        should_stop: ShouldStop = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[list[Translation]]:
        """Return each line's translations, best first: at least one, empty for a blank line.

        A line of more than ``longest_source`` tokens is split into as few pieces as possible, of
        nearly equal length; their translations are joined by spaces.

        Args:
            lines: text without line ends.
            prefixes: what each line's translations begin with, if the line is not blank.
            n_best: maximum number of translations per line, limited by the beam size.
            with_alignments: whether to align the words of the best translation.
            progress: see ``Progress``.
            on_long_line: called with each line that is split, before any is translated.
            should_stop: see ``ShouldStop``.
            tags: each line's tag, or None; without any, ``self.tag`` is every line's.

        Raises:
            UsageError: the tokenizers have no such tag.
        """
        prefixes, tags = prefixes or [""] * len(lines), tags or [self.tag] * len(lines)
        encoded = [
            encode_line(self.tokenizers, line, prefix, self.longest_source, tag)
            for line, prefix, tag in zip(lines, prefixes, tags, strict=True)
        ]
        if on_long_line is not None:
            for long_line in self.find_long_lines(sum(map(len, line.pieces)) for line in encoded):
                on_long_line(long_line)
        of_pieces = iter(
            self.search_ids(
                [source for line in encoded for source in line.sources],
                [prefix for line in encoded for prefix in line.prefixes],
                progress,
                should_stop,
                keep_slots=n_best == 1,
            )
        )
        ranked = [
            join_hypotheses(line, [next(of_pieces) for _ in line.pieces], n_best)
            for line in encoded
        ]
        aligned = self._align(ranked, with_alignments)
        return [
            [
                to_translation(
                    hypothesis,
                    self.tokenizers,
                    self.decoding.length_penalty,
                    aligned.get(hypothesis, ()),
                    self.replace_unk,
                    with_alignments and place == 0,
                )
                for place, hypothesis in enumerate(of_line)
            ]
            for of_line in ranked
        ]

    def _align(
        self, ranked: Sequence[Sequence[LineHypothesis]], with_alignments: bool
    ) -> dict[LineHypothesis, list[int]]:
        """Align the tokens of the best hypotheses if asked, and of those with unknown words."""
        needed = [
            hypothesis
            for of_line in ranked
            for place, hypothesis in enumerate(of_line)
            if (with_alignments and place == 0) or (self.replace_unk and hypothesis.has_unknown())
        ]
        if not needed:
            return {}
        of_pieces = iter(
            self.engine.align(
                [source for hypothesis in needed for source in hypothesis.line.sources],
                [piece.ids for hypothesis in needed for piece in hypothesis.pieces],
                self.decoding.batch_tokens,
            )
        )
        return {
            hypothesis: hypothesis.join_alignments([next(of_pieces) for _ in hypothesis.pieces])
            for hypothesis in needed
        }

    # --- ids --------------------------------------------------------------------------------------

    def translate_ids(
        self,
        sources: Sequence[list[int]],
        progress: Progress = None,
        should_stop: ShouldStop = None,
    ) -> list[list[int]]:
        """Return each source's best translation, empty for an empty one; see ``search_ids``."""
        outputs = self.search_ids(sources, None, progress, should_stop)
        return [hypotheses[0].ids if hypotheses else [] for hypotheses in outputs]

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        progress: Progress = None,
        should_stop: ShouldStop = None,
        keep_slots: bool = True,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first; see ``SearchEngine.search``.

        Args:
            sources: ids, each with its EOS.
            prefixes: ids that outputs begin with.
            progress: see ``Progress``.
            should_stop: see ``ShouldStop``.
            keep_slots: whether a source whose best hypothesis has other slots is searched again,
                with a beam of at least ``SLOT_BEAM``, for the best one that has the same.
        """
        prefixes = prefixes or [[] for _ in sources]
        limits = [
            max(self._max_output_tokens(len(ids) - 1), len(prefix))
            for ids, prefix in zip(sources, prefixes, strict=True)
        ]
        options = SearchOptions(
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            banned_ids=(BOS_ID, PAD_ID) if self.replace_unk else (UNK_ID, BOS_ID, PAD_ID),
            beam_size=self.decoding.beam_size,
            length_penalty=self.decoding.length_penalty,
            sample_seed=self.sample_seed,
        )
        batch_tokens = self.decoding.batch_tokens
        outputs = self.engine.search(
            sources, prefixes, limits, options, batch_tokens, progress, should_stop
        )
        if keep_slots and self.sample_seed is None:
            self._search_slots(outputs, sources, prefixes, limits, options, should_stop)
        return outputs

    def _search_slots(
        self,
        outputs: list[list[Hypothesis]],
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        limits: Sequence[int],
        options: SearchOptions,
        should_stop: ShouldStop,
    ) -> None:
        """Replace hypotheses that have other slots than their sources, where others are found."""
        has_same_slots = self.tokenizers.has_same_slots
        places = [
            place
            for place, hypotheses in enumerate(outputs)
            if hypotheses and not has_same_slots(sources[place], hypotheses[0].ids)
        ]
        if not places:
            return
        again = self.engine.search(
            [sources[place] for place in places],
            [prefixes[place] for place in places],
            [limits[place] for place in places],
            replace(options, beam_size=max(SLOT_BEAM, options.beam_size)),
            self.decoding.batch_tokens,
            None,
            should_stop,
        )
        for place, hypotheses in zip(places, again, strict=True):
            kept = (one for one in hypotheses if has_same_slots(sources[place], one.ids))
            outputs[place] = [next(kept, outputs[place][0])]

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

    def _max_output_tokens(self, src_tokens: int) -> int:
        # A half-trained model repeats itself for ever; a translation is seldom twice its source.
        limits = [int(src_tokens * self.decoding.max_length_ratio) + 10]
        limits += [limit for limit in (self.max_length, self.max_positions) if limit is not None]
        return min(limits)

    def find_long_lines(self, lengths: Iterable[int]) -> Iterator[LongLine]:
        """Yield the lines that must be split, given the number of tokens of each line."""
        for line, tokens in enumerate(lengths, start=1):
            if tokens > self.longest_source:
                yield LongLine(line, int(tokens), int(-(-tokens // self.longest_source)))

    def check_lengths(self, lengths: Iterable[int], what: str) -> None:
        """Make sure that there are positions enough for lines of these lengths.

        Raises:
            InputError: there are not; the message calls the line ``what``.
        """
        for line, tokens in enumerate(lengths if self.max_positions else (), start=1):
            self._check_positions(
                tokens, f"{what} {line}", "split it, or train with more positions"
            )

    def check_prefix(self, src: str, prefix: str, line: int) -> None:
        """Make sure that there are positions enough for the prefix of line ``line``, ``src``.

        Raises:
            InputError: there are not.
        """
        if self.max_positions is not None:
            values = self.tokenizers.encode_source(src).values
            tokens = len(self.tokenizers.encode_target(prefix, values))
            self._check_positions(tokens, f"prefix of line {line:,}", "give a shorter one")

    def _check_positions(self, tokens: int, what: str, remedy: str) -> None:
        limit = self.max_positions
        if limit is not None and tokens >= limit:
            raise InputError(
                f"{what}: {tokens:,} tokens, but this model's learned positions take {limit - 1:,} "
                f"(model.max_positions); {remedy}"
            )


# --- streams --------------------------------------------------------------------------------------


def with_prefixes(
    lines: Iterable[str], prefixes: Iterable[str] | None, name: str, first_line: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield each line with its prefix; without any, with an empty one.

    Args:
        lines: what is to be translated.
        prefixes: as many, or None.
        name: the prefixes' file, for messages.
        first_line: the number of the first line.

    Raises:
        InputError: there are fewer or more prefixes than lines.
    """
    if prefixes is None:
        yield from ((line, "") for line in lines)
        return
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), start=first_line):
        if prefix is None:
            raise InputError(
                f"{name}: ends before line {number:,}, which the input has; give a line, empty or "
                "not, for each of the input's"
            )
        if line is None:
            raise InputError(
                f"{name}: goes on with line {number:,}, which the input does not have; give a line "
                "for each of the input's"
            )
        yield line, prefix


def translate_stream(
    translator: TextTranslator[SearchEngine],
    lines: Iterable[tuple[str, str]],
    output_format: OutputFormat = PLAIN,
    chunk_lines: int = CHUNK_LINES,
    first_line: int = 1,
    on_long_line: Callable[[LongLine], object] | None = None,
    ranks: Ranks = SINGLE_PROCESS,
) -> Iterator[TranslatedLine]:
    """Yield one record a line, in order, holding ``chunk_lines`` of them at a time.

    Args:
        translator: what translates.
        lines: text without line ends, and what its translations begin with.
        output_format: what is in a record.
        chunk_lines: lines sorted by length and translated together, on each rank.
        first_line: the number of the first line.
        on_long_line: called with each line too long to be translated as one, on its rank.
        ranks: who shares the work; all of them get all records.
    """
    remaining = iter(lines)
    for first in remaining:
        chunk = [first, *islice(remaining, chunk_lines * ranks.size - 1)]
        for number, (line, prefix) in enumerate(chunk, start=first_line):
            translator.check_prefix(line, prefix, number)  # on all ranks alike
        own_numbers = range(first_line + ranks.rank, first_line + len(chunk), ranks.size)
        share = partial(_translate_share, translator, output_format, own_numbers, on_long_line)
        # What goes from rank to rank is JSON.
        translated = share(chunk) if ranks.size == 1 else ranks.map(share, chunk)
        yield from (TranslatedLine(*fields) for fields in translated)
        first_line += len(chunk)


def _translate_share(
    translator: TextTranslator[SearchEngine],
    output_format: OutputFormat,
    numbers: Sequence[int],
    on_long_line: Callable[[LongLine], object] | None,
    lines: Sequence[tuple[str, str]],
) -> list[list[str]]:
    """Translate one rank's share of a chunk, whose lines have these numbers."""

    def report(long_line: LongLine) -> None:
        if on_long_line is not None:
            on_long_line(replace(long_line, line=numbers[long_line.line - 1]))

    translated = translator.translate_lines(
        [line for line, _ in lines],
        [prefix for _, prefix in lines],
        output_format.n_best or 1,
        output_format.with_alignments,
        on_long_line=report,
    )
    protect = translator.tokenizers.protect
    records = []
    for number, (line, _), translations in zip(numbers, lines, translated, strict=True):
        record = output_format.to_record(number, translations)
        if protect:
            difference = compare_placeholders(line, translations[0].text, protect)
            record = record._replace(difference=difference)
        records.append([*record])
    return records

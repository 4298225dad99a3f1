"""Text in, text out: tokenizers, a search engine, and how to search."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from transformer_cli.config.choices import LARGEST_BEAM, LONGEST_SOURCE, MOST_BATCH_TOKENS
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.errors import InputError, UsageError
from transformer_cli.inference.engine import SearchEngine, ignore, never
from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions
from transformer_cli.inference.lines import (
    LineHypothesis,
    LongLine,
    Translation,
    encode_line,
    join_alignments,
    join_hypotheses,
    to_translation,
)
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SLOT_BEAM = 8
"""Beam of the second search for a translation with its source's placeholders."""

EngineT = TypeVar("EngineT", bound=SearchEngine, covariant=True)


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
        asked = {
            "beam_size": beam_size,
            "batch_tokens": batch_tokens,
            "length_penalty": length_penalty,
        }
        changes = {key: value for key, value in asked.items() if value is not None}
        return replace(
            self,
            decoding=self.decoding.model_copy(update=changes),
            max_length=max_length or self.max_length,
        )

    def with_unk_replacement(self) -> Self:
        """Return the same translator, but one that copies source words for unknown words.

        Raises:
            UsageError: its target tokenizer is not word-level.
        """
        if not self.tokenizers.tgt.is_word_level:
            raise UsageError(
                "needs a word-level tokenizer; this model writes subwords, which can spell any word"
            )
        return replace(self, replace_unk=True)

    def with_sampling(self, seed: int) -> Self:
        """Return the same translator, but one that samples."""
        return replace(self.with_search(beam_size=1), sample_seed=seed)

    def with_tag(self, tag: str | None) -> Self:
        """Return the same translator, but one that puts a tag before each source.

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

    def translate(
        self,
        lines: Sequence[str],
        progress: Callable[[int], object] = ignore,
        on_long_line: Callable[[LongLine], object] = ignore,
        should_stop: Callable[[], bool] = never,
        tags: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Return the best translation of each line; see ``translate_lines``."""
        found = self.translate_lines(
            lines, progress=progress, on_long_line=on_long_line, should_stop=should_stop, tags=tags
        )
        return [best.text for best, *_ in found]

    def translate_lines(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        n_best: int = 1,
        with_alignments: bool = False,
        progress: Callable[[int], object] = ignore,
        on_long_line: Callable[[LongLine], object] = ignore,
        should_stop: Callable[[], bool] = never,
        tags: Sequence[str | None] | None = None,
    ) -> list[list[Translation]]:
        """Return each line's translations, best first: at least one, empty for a blank line.

        A line of more than ``longest_source`` tokens is split into as few chunks as possible, of
        nearly equal length; their translations are joined by spaces.

        Args:
            lines: text without line ends.
            prefixes: what each line's translations begin with, if the line is not blank.
            n_best: maximum number of translations per line, limited by the beam size.
            with_alignments: whether to align the words of the best translation.
            progress: called with the number of sentences, or chunks, just finished.
            on_long_line: called with each line that is split, before any is translated.
            should_stop: called before each batch; once it returns True, the rest is left empty.
            tags: each line's tag, or None; without any, ``self.tag`` is every line's.

        Raises:
            UsageError: the tokenizers have no such tag.
        """
        prefixes, tags = prefixes or [""] * len(lines), tags or [self.tag] * len(lines)
        encoded = [
            encode_line(self.tokenizers, line, prefix, self.longest_source, tag)
            for line, prefix, tag in zip(lines, prefixes, tags, strict=True)
        ]
        for long_line in self.find_long_lines(sum(map(len, line.chunks)) for line in encoded):
            on_long_line(long_line)
        found = iter(
            self.search_ids(
                [source for line in encoded for source in line.sources],
                [prefix for line in encoded for prefix in line.prefixes],
                progress,
                should_stop,
                keep_slots=n_best == 1,
            )
        )
        ranked = [
            join_hypotheses(line, [next(found) for _ in line.chunks], n_best) for line in encoded
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
        found = iter(
            self.engine.align(
                [source for hypothesis in needed for source in hypothesis.line.sources],
                [chunk.ids for hypothesis in needed for chunk in hypothesis.chunks],
                self.decoding.batch_tokens,
            )
        )
        return {each: join_alignments(each, [next(found) for _ in each.chunks]) for each in needed}

    def translate_ids(
        self,
        sources: Sequence[list[int]],
        progress: Callable[[int], object] = ignore,
        should_stop: Callable[[], bool] = never,
    ) -> list[list[int]]:
        """Return each source's best translation, empty for an empty one; see ``search_ids``."""
        found = self.search_ids(sources, None, progress, should_stop)
        return [hypotheses[0].ids if hypotheses else [] for hypotheses in found]

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        progress: Callable[[int], object] = ignore,
        should_stop: Callable[[], bool] = never,
        keep_slots: bool = True,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first; see ``SearchEngine.search``.

        Args:
            sources: ids, each with its EOS.
            prefixes: ids that outputs begin with.
            progress: as ``translate_lines`` takes it.
            should_stop: likewise.
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
        found = self.engine.search(
            sources, prefixes, limits, options, batch_tokens, progress, should_stop
        )
        if keep_slots and self.sample_seed is None:
            self._search_slots(found, sources, prefixes, limits, options, should_stop)
        return found

    def _search_slots(
        self,
        found: list[list[Hypothesis]],
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        limits: Sequence[int],
        options: SearchOptions,
        should_stop: Callable[[], bool],
    ) -> None:
        """Replace hypotheses that have other slots than their sources, where others are found."""
        has_same_slots = self.tokenizers.has_same_slots
        places = [
            place
            for place, hypotheses in enumerate(found)
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
            ignore,
            should_stop,
        )
        for place, hypotheses in zip(places, again, strict=True):
            kept = (each for each in hypotheses if has_same_slots(sources[place], each.ids))
            found[place] = [next(kept, found[place][0])]

    def _max_output_tokens(self, src_tokens: int) -> int:
        # A half-trained model repeats itself for ever; a translation is seldom twice its source.
        limits = [int(src_tokens * self.decoding.max_length_ratio) + 10]
        limits += [each for each in (self.max_length, self.max_positions) if each is not None]
        return min(limits)

    def find_long_lines(self, lengths: Iterable[int]) -> Iterator[LongLine]:
        """Yield the lines that must be split, given the number of tokens of each line."""
        for line, tokens in enumerate(lengths, start=1):
            if tokens > self.longest_source:
                yield LongLine(line, int(tokens), int(-(-tokens // self.longest_source)))

    def _check_positions(self, tokens: int, what: str, remedy: str) -> None:
        """Check that a line of ``tokens``, without BOS and EOS, fits into the learned positions.

        Raises:
            InputError: it does not; the message calls the line ``what`` and ends in ``remedy``.
        """
        limit = self.max_positions
        if limit is not None and tokens >= limit:
            raise InputError(
                f"{what}: {tokens:,} tokens, but this model's learned positions take {limit - 1:,} "
                f"(model.max_positions); {remedy}"
            )

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
        if self.max_positions is None:
            return
        values = self.tokenizers.encode_source(src).values
        tokens = len(self.tokenizers.encode_target(prefix, values))
        self._check_positions(tokens, f"prefix of line {line:,}", "give a shorter one")

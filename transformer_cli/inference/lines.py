"""Lines of text as chunks of token ids, and hypotheses of these chunks as translated text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from transformer_cli.inference.hypotheses import Hypothesis
from transformer_cli.inference.token_words import map_tokens_to_words
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import EOS_ID, UNK_ID


@dataclass(frozen=True)
class LongLine:
    """A line too long to be translated as one."""

    line: int
    """Its number, from 1."""
    tokens: int
    chunks: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.tokens:,} tokens, translated in {self.chunks:,} pieces"


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: on one line.
        log_probability: the sum over the tokens of all chunks.
        score: what translations of a line are ranked by: that, divided by the length penalty; of
            several chunks, the sum of theirs, so that the best of each make up the best.
        alignment: which word of the line goes with which of ``text``, counted from 0, words being
            what white space separates; empty if nobody asked.
    """

    text: str
    log_probability: float = 0.0
    score: float = 0.0
    alignment: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class EncodedLine:
    """A line to be translated, as ids.

    Attributes:
        text: the source text.
        chunks: its ids without EOS, cut where it is too long; none if it is blank. Each begins with
            the tag, if there is one.
        prefix: what the translation begins with.
        prefix_ids: its ids, which the first chunk's outputs begin with.
        values: what slots stand for; see ``EncodedSource``.
    """

    text: str
    chunks: list[list[int]]
    prefix: str
    prefix_ids: list[int]
    values: tuple[str, ...] = ()

    @property
    def ids(self) -> list[int]:
        """Ids of all chunks."""
        return [number for chunk in self.chunks for number in chunk]

    @property
    def sources(self) -> list[list[int]]:
        """Chunks as a search engine takes them, each with its EOS."""
        return [[*chunk, EOS_ID] for chunk in self.chunks]

    @property
    def prefixes(self) -> list[list[int]]:
        """Forced prefixes of the chunks."""
        return [self.prefix_ids if number == 0 else [] for number in range(len(self.chunks))]


@dataclass(frozen=True, eq=False)
class LineHypothesis:
    """One translation of a line, as a hypothesis for each of its chunks."""

    line: EncodedLine
    chunks: tuple[Hypothesis, ...]

    @property
    def ids(self) -> list[int]:
        """Ids of all chunks."""
        return [number for each in self.chunks for number in each.ids]

    def score(self, length_penalty: float) -> float:
        """Return the sum of the chunks' scores, which falls with the rank, as theirs do."""
        return sum((each.score(length_penalty) for each in self.chunks), start=0.0)

    def has_unknown(self) -> bool:
        """Return whether there is an unknown word besides those of the prefix."""
        return UNK_ID in self.ids[len(self.line.prefix_ids) :]


def encode_line(
    tokenizers: Tokenizers, text: str, prefix: str, longest: int, tag: str | None = None
) -> EncodedLine:
    """Encode a line and cut it into chunks of at most ``longest`` tokens, the tag included.

    Raises:
        UsageError: there is no such tag.
    """
    prefix = prefix.strip()
    ids, values = tokenizers.encode_source(text)
    start = [] if tag is None else [tokenizers.tag_id(tag)]
    chunks = [[*start, *chunk] for chunk in split_evenly(ids, longest - len(start))]
    return EncodedLine(text, chunks, prefix, tokenizers.encode_target(prefix, values), values)


def show_tokens(tokenizer: Tokenizer, ids: Sequence[int], values: Sequence[str]) -> list[str]:
    """Return ids' tokens for display, with ``values`` for slots."""
    tokens = tokenizer.filled_tokens(ids, values)
    return [token or tokenizer.token(number) for token, number in zip(tokens, ids, strict=True)]


def split_evenly(ids: list[int], longest: int) -> list[list[int]]:
    """Split ids into as few chunks of at most ``longest`` as will do, as equal as can be.

    A line of nothing but white space, or of invisible characters, has no chunk.
    """
    count = -(-len(ids) // longest)
    ends = [len(ids) * chunk // max(1, count) for chunk in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(ends)]


def join_hypotheses(
    line: EncodedLine, found: Sequence[Sequence[Hypothesis]], n_best: int
) -> list[LineHypothesis]:
    """Combine the hypotheses of a line's chunks, rank by rank, into ``n_best`` or at least one."""
    joined = [LineHypothesis(line, chunks) for chunks in zip(*found, strict=False)]
    return joined[:n_best] or [LineHypothesis(EncodedLine(line.text, [], "", []), ())]


def join_alignments(hypothesis: LineHypothesis, found: Iterable[list[int]]) -> list[int]:
    """Return the places in the line that tokens are aligned to, given those within each chunk."""
    starts = accumulate(map(len, hypothesis.line.chunks), initial=0)
    return [start + place for start, places in zip(starts, found, strict=False) for place in places]


def to_translation(
    hypothesis: LineHypothesis,
    tokenizers: Tokenizers,
    length_penalty: float,
    aligned: Sequence[int] = (),
    replace_unk: bool = False,
    with_alignment: bool = False,
) -> Translation:
    """Write a hypothesis as text.

    Args:
        hypothesis: of a line.
        tokenizers: of both sides.
        length_penalty: what its score is divided by; see ``Hypothesis.score``.
        aligned: the source token that each target token is aligned to, if that was needed.
        replace_unk: whether to copy the aligned source words for unknown words.
        with_alignment: whether the result has the aligned words.
    """
    line, ids, tgt = hypothesis.line, hypothesis.ids, tokenizers.tgt
    src_tokens = tokenizers.source_tokens(line.text, line.ids) if aligned else []
    needed = with_alignment or tgt.is_word_level or line.values
    tgt_tokens = tgt.filled_tokens(ids, line.values) if needed else []
    if replace_unk:
        for place, number in enumerate(ids):
            if number == UNK_ID and place >= len(line.prefix_ids):
                # Tags and joiners are no words.
                tgt_tokens[place] = src_tokens[aligned[place]] or tgt_tokens[place]
    text = " ".join(filter(None, _chunk_texts(tgt, hypothesis, tgt_tokens)))
    return Translation(
        text,
        sum((each.log_probability for each in hypothesis.chunks), start=0.0),
        hypothesis.score(length_penalty),
        _align_words(line.text, src_tokens, text, tgt_tokens, aligned) if with_alignment else (),
    )


def _align_words(
    src: str, src_tokens: Sequence[str], tgt: str, tgt_tokens: Sequence[str], aligned: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    src_words, tgt_words = (
        map_tokens_to_words(src, src_tokens),
        map_tokens_to_words(tgt, tgt_tokens),
    )
    if not src_words or not tgt_words:
        return ()
    links = {
        (src_words[place], word)
        for place, word, token in zip(aligned, tgt_words, tgt_tokens, strict=True)
        if src_tokens[place] and token
    }
    return tuple(sorted(links))


def _chunk_texts(
    tokenizer: Tokenizer, hypothesis: LineHypothesis, tokens: Sequence[str]
) -> Iterator[str]:
    ends = list(accumulate((len(each.ids) for each in hypothesis.chunks), initial=0))
    for number, (chunk, (start, end)) in enumerate(
        zip(hypothesis.chunks, pairwise(ends), strict=True)
    ):
        if number == 0 and hypothesis.line.prefix:
            yield _continue_prefix(tokenizer, hypothesis.line, chunk.ids, tokens[start:end])
        else:
            yield tokenizer.detokenize(chunk.ids, tokens[start:end])


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

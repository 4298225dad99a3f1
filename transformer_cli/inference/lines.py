"""A line of text on its way: as pieces of token ids, and their hypotheses as translated text."""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from transformer_cli.inference.engine import Hypothesis
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import EOS_ID, UNK_ID


class Row(Protocol):
    """What is translated as one line, and written as one; a table's are in rows.py."""

    @property
    def text(self) -> str:
        """The text to translate, on one line."""

    @property
    def source(self) -> str:
        """All of the row, as one line."""

    def to_line(self, translation: str) -> str:
        """Return the line that is written."""


class TextRow(NamedTuple):
    """A line of plain text."""

    text: str

    @property
    def source(self) -> str:
        """The line."""
        return self.text

    def to_line(self, translation: str) -> str:
        """Return the translation alone."""
        return translation


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: on one line.
        log_probability: the sum over the tokens of all pieces.
        score: what translations of a line are ranked by: that, divided by the length penalty; of
            several pieces, the sum of theirs, so that the best of each make up the best.
        alignment: which word of the line goes with which of ``text``, counted from 0, words being
            what white space separates; empty if nobody asked.
    """

    text: str
    log_probability: float = 0.0
    score: float = 0.0
    alignment: tuple[tuple[int, int], ...] = ()


class TranslatedLine(NamedTuple):
    """What is written of a line."""

    text: str
    alignment: str = ""
    """Empty if nobody asked."""
    difference: str = ""
    """How the placeholders of line and translation differ; empty if they are the same."""


@dataclass(frozen=True)
class OutputFormat:
    """How translations are written.

    Attributes:
        n_best: maximum number of translations, as a JSON object with their scores; None: the best
            one's text.
        with_alignments: whether the alignment of the best one is written too.
    """

    n_best: int | None = None
    with_alignments: bool = False

    def to_record(self, line: int, translations: Sequence[Translation]) -> TranslatedLine:
        """Return what is written of line ``line``."""
        best = translations[0]
        text = best.text if self.n_best is None else _to_json(line, translations)
        links = best.alignment if self.with_alignments else ()
        return TranslatedLine(text, " ".join(f"{src}-{tgt}" for src, tgt in links))


PLAIN = OutputFormat()


def _to_json(line: int, translations: Sequence[Translation]) -> str:
    shown = [
        {
            "text": translation.text,
            "score": round(translation.score, 4),
            "log_probability": round(translation.log_probability, 4),
        }
        for translation in translations
    ]
    return json.dumps({"line": line, "translations": shown}, ensure_ascii=False)


# --- text to ids ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongLine:
    """A line too long to be translated as one."""

    line: int
    """Its number, from 1."""
    tokens: int
    pieces: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.tokens:,} tokens, translated in {self.pieces:,} pieces"


@dataclass(frozen=True)
class EncodedLine:
    """A line to be translated, as ids.

    Attributes:
        text: the source text.
        pieces: its ids without EOS, cut where it is too long; none if it is blank. Each begins with
            the tag, if there is one.
        prefix: what the translation begins with.
        prefix_ids: its ids, which the first piece's outputs begin with.
        values: what slots stand for; see ``EncodedSource``.
    """

    text: str
    pieces: list[list[int]]
    prefix: str
    prefix_ids: list[int]
    values: tuple[str, ...] = ()

    @property
    def ids(self) -> list[int]:
        """Ids of all pieces."""
        return [number for piece in self.pieces for number in piece]

    @property
    def sources(self) -> list[list[int]]:
        """Pieces as a search engine takes them, each with its EOS."""
        return [[*piece, EOS_ID] for piece in self.pieces]

    @property
    def prefixes(self) -> list[list[int]]:
        """Forced prefixes of the pieces."""
        return [self.prefix_ids if number == 0 else [] for number in range(len(self.pieces))]


def encode_line(
    tokenizers: Tokenizers, text: str, prefix: str, longest: int, tag: str | None = None
) -> EncodedLine:
    """Encode a line and cut it into pieces of at most ``longest`` tokens, the tag included.

    Raises:
        UsageError: there is no such tag.
    """
    prefix = prefix.strip()
    ids, values = tokenizers.encode_source(text)
    start = [] if tag is None else [tokenizers.tag_id(tag)]
    pieces = [[*start, *piece] for piece in split_evenly(ids, longest - len(start))]
    return EncodedLine(text, pieces, prefix, tokenizers.encode_target(prefix, values), values)


def split_evenly(ids: list[int], longest: int) -> list[list[int]]:
    """Split ids into as few pieces of at most ``longest`` as will do, as equal as can be.

    A line of nothing but white space, or of invisible characters, has none.
    """
    count = -(-len(ids) // longest)
    ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(ends)]


# --- hypotheses to text ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LineHypothesis:
    """One translation of a line, as a hypothesis for each of its pieces."""

    line: EncodedLine
    pieces: tuple[Hypothesis, ...]

    @property
    def ids(self) -> list[int]:
        """Ids of all pieces."""
        return [number for piece in self.pieces for number in piece.ids]

    def has_unknown(self) -> bool:
        """Return whether there is an unknown word besides those of the prefix."""
        return UNK_ID in self.ids[len(self.line.prefix_ids) :]

    def join_alignments(self, of_pieces: Iterable[list[int]]) -> list[int]:
        """Return the places in the line that tokens are aligned to, given those in each piece."""
        starts = accumulate(map(len, self.line.pieces), initial=0)
        return [
            start + place
            for start, places in zip(starts, of_pieces, strict=False)
            for place in places
        ]


def join_hypotheses(
    line: EncodedLine, of_pieces: Sequence[Sequence[Hypothesis]], n_best: int
) -> list[LineHypothesis]:
    """Combine the hypotheses of a line's pieces, rank by rank, into ``n_best`` or at least one."""
    joined = [LineHypothesis(line, pieces) for pieces in zip(*of_pieces, strict=False)]
    return joined[:n_best] or [LineHypothesis(EncodedLine(line.text, [], "", []), ())]


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
    text = " ".join(filter(None, _piece_texts(tgt, hypothesis, tgt_tokens)))
    pieces = hypothesis.pieces
    return Translation(
        text,
        sum((piece.log_probability for piece in pieces), start=0.0),
        sum((piece.score(length_penalty) for piece in pieces), start=0.0),
        _align_words(line.text, src_tokens, text, tgt_tokens, aligned) if with_alignment else (),
    )


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


def show_tokens(tokenizer: Tokenizer, ids: Sequence[int], values: Sequence[str]) -> list[str]:
    """Return ids' tokens for display, with ``values`` for slots."""
    tokens = tokenizer.filled_tokens(ids, values)
    return [token or tokenizer.token(number) for token, number in zip(tokens, ids, strict=True)]


# --- words of text and tokens ---------------------------------------------------------------------

# How many letters on a token is looked for: some are lost between tokens, and more where a token
# does not show its letters, as unknown ones and bytes do not.
_NEAR, _FAR = 16, 1024


def _align_words(
    src: str, src_tokens: Sequence[str], tgt: str, tgt_tokens: Sequence[str], aligned: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    src_words = map_tokens_to_words(src, src_tokens)
    tgt_words = map_tokens_to_words(tgt, tgt_tokens)
    if not src_words or not tgt_words:
        return ()
    links = {
        (src_words[place], word)
        for place, word, token in zip(aligned, tgt_words, tgt_tokens, strict=True)
        if src_tokens[place] and token
    }
    return tuple(sorted(links))


def map_tokens_to_words(text: str, tokens: Sequence[str]) -> list[int]:
    """Return the number of the word of ``text`` that each of its tokens begins in.

    Words are what white space separates, counted from 0; a text without any has no numbers. Tokens
    are found by their letters, so that it does not matter what a tokenizer makes of spaces, of case
    and of how characters are coded.
    """
    letters, numbers = "", []
    for number, word in enumerate(text.split()):
        plain = _plain(word)
        letters += plain
        numbers += [number] * len(plain)
    if not numbers:
        return []
    words, place, reach = [], 0, _NEAR
    for token in tokens:
        plain = _plain(token)
        at = letters.find(plain, place, place + len(plain) + reach)
        words.append(numbers[min(max(at, place), len(numbers) - 1)])
        reach = _FAR if at < 0 else _NEAR
        if at >= 0:
            place = at + len(plain)
    return words


def _plain(text: str) -> str:
    """Return the letters of a text and its marks, without invisible characters."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(
        letter
        for letter in decomposed
        if letter != "▁" and not letter.isspace() and unicodedata.category(letter)[0] != "C"
    )

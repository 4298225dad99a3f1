"""From what a search has found for the pieces of lines to the lines' translations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from transformer_cli.inference.alignment import aligned_sources, word_numbers
from transformer_cli.inference.search import Hypothesis
from transformer_cli.text.tokenizer import Tokenizer
from transformer_cli.text.vocabulary import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from transformer_cli.inference.translator import Translator


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: on one line.
        log_probability: the sum over the tokens of all its pieces.
        score: what translations of a line are ranked by: that, divided by the length penalty; of a
            line in pieces, the sum of theirs, so that the best of each make up the best.
        links: which word of the line goes with which of ``text``, counted from 0, words being what
            white space parts; empty if nobody asked.
    """

    text: str
    log_probability: float = 0.0
    score: float = 0.0
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Draft:
    """One translation of a line, as ids.

    Attributes:
        line: the source text.
        prefix: what the text begins with.
        forced: the prefix' ids, which the first hypothesis begins with.
        pieces: the source's ids, cut where it is too long.
        hypotheses: the translation of each piece.
    """

    line: str
    prefix: str
    forced: list[int]
    pieces: list[list[int]]
    hypotheses: tuple[Hypothesis, ...]

    @property
    def joined(self) -> Hypothesis:
        """That of the whole line."""
        ids = [number for each in self.hypotheses for number in each.ids]
        return Hypothesis(ids, sum((each.log_probability for each in self.hypotheses), start=0.0))

    def score(self, length_penalty: float) -> float:
        """The sum of its pieces' scores, which falls with its rank, as theirs do."""
        return sum((each.score(length_penalty) for each in self.hypotheses), start=0.0)

    def has_unknown(self) -> bool:
        """Whether it has an unknown word other than those of the prefix."""
        return UNK_ID in self.joined.ids[len(self.forced) :]


def finished(
    translator: "Translator", drafts: Sequence[Sequence[Draft]], linked: bool
) -> list[list[Translation]]:
    """Write drafts as text.

    Args:
        translator: what they were made by.
        drafts: of each line, best first.
        linked: whether to align the words of each line's best.
    """
    to_align = [
        draft
        for of_line in drafts
        for rank, draft in enumerate(of_line)
        if (linked and rank == 0) or (translator.replace_unk and draft.has_unknown())
    ]
    found = _aligned(translator, to_align) if to_align else ()
    aligned = dict(zip(map(id, to_align), found, strict=True))
    return [
        [
            _translation(translator, draft, aligned.get(id(draft), []), linked and rank == 0)
            for rank, draft in enumerate(of_line)
        ]
        for of_line in drafts
    ]


def _aligned(translator: "Translator", drafts: Sequence[Draft]) -> Iterator[list[int]]:
    """For each token of each draft, the token of its line that it is aligned to."""
    found = iter(
        aligned_sources(
            translator.model,
            [[*piece, EOS_ID] for draft in drafts for piece in draft.pieces],
            [each.ids for draft in drafts for each in draft.hypotheses],
            translator.decoding.batch_tokens,
            translator.precision,
        )
    )
    for draft in drafts:
        starts = list(accumulate(map(len, draft.pieces), initial=0))[:-1]
        yield [start + place for start in starts for place in next(found)]


def _translation(
    translator: "Translator", draft: Draft, aligned: list[int], linked: bool
) -> Translation:
    src, tgt = translator.tokenizers.src, translator.tokenizers.tgt
    joined = draft.joined
    source_ids = [number for piece in draft.pieces for number in piece]
    sources = src.line_tokens(draft.line, source_ids) if aligned else []
    needed = linked or tgt.is_word_level
    tokens = [tgt.token(number) for number in joined.ids] if needed else []
    if translator.replace_unk:
        for place, number in enumerate(joined.ids):
            if number == UNK_ID and place >= len(draft.forced):
                tokens[place] = sources[aligned[place]]
    texts, start = [], 0
    for number, hypothesis in enumerate(draft.hypotheses):
        end = start + len(hypothesis.ids)
        if number == 0 and draft.prefix:
            texts.append(_after_prefix(tgt, draft, hypothesis.ids, tokens[start:end]))
        else:
            texts.append(tgt.detokenize(hypothesis.ids, tokens[start:end]))
        start = end
    text = " ".join(filter(None, texts))
    links: set[tuple[int, int]] = set()
    if linked:
        from_words, to_words = word_numbers(draft.line, sources), word_numbers(text, tokens)
        if from_words and to_words:
            links = {
                (from_words[place], to_word)
                for place, to_word in zip(aligned, to_words, strict=True)
            }
    penalty = translator.decoding.length_penalty
    return Translation(text, joined.log_probability, draft.score(penalty), tuple(sorted(links)))


def _after_prefix(tokenizer: Tokenizer, draft: Draft, ids: list[int], tokens: list[str]) -> str:
    """The text of a hypothesis, which begins with the prefix as its author wrote it."""
    count = len(draft.forced)
    whole = tokenizer.detokenize(ids, tokens)
    start = tokenizer.detokenize(ids[:count], tokens[:count])
    if whole.startswith(start):
        return draft.prefix + whole[len(start) :]
    # What follows changes how the prefix is written, a quotation mark's spaces say.
    rest = tokenizer.detokenize(ids[count:], tokens[count:])
    return " ".join(filter(None, (draft.prefix, rest)))

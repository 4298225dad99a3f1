"""Translating lines of text: what is too long in pieces, what has a given start from there on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from transformer_cli.errors import InputError
from transformer_cli.inference.drafts import Draft, Translation, finished
from transformer_cli.text.vocabulary import EOS_ID

if TYPE_CHECKING:
    from transformer_cli.inference.translator import Translator


def ignore(what: object) -> None:
    """Take no notice, of progress say."""


def never() -> bool:
    """Do not give up."""
    return False


@dataclass(frozen=True)
class CutLine:
    """A line too long to be translated as one."""

    line: int
    """Its number, from 1."""
    tokens: int
    pieces: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.tokens:,} tokens, translated in {self.pieces:,} pieces"


def translate_lines(
    translator: "Translator",
    lines: Sequence[str],
    prefixes: Sequence[str] | None = None,
    n_best: int = 1,
    linked: bool = False,
    progress: Callable[[int], object] = ignore,
    on_cut: Callable[[CutLine], object] = ignore,
    give_up: Callable[[], bool] = never,
) -> list[list[Translation]]:
    """The translations of each line, best first: at least one, which for a blank line is empty.

    A line of more tokens than ``translator.longest_source`` is cut into as few pieces as will do,
    as equal as can be; their translations are joined by spaces.

    Args:
        translator: model, tokenizers and search.
        lines: text without line ends.
        prefixes: what each line's translations begin with, if the line is not blank.
        n_best: most translations of a line; no more are found than the beam is wide.
        linked: whether to align the words of the best translation.
        progress: told how many sentences, or pieces, were finished each time some are.
        on_cut: told of each line that is cut, before any is translated.
        give_up: asked before each batch; once it is true, what is left has empty translations.

    Raises:
        InputError: a prefix is too long for learned positions.
    """
    sources = [translator.tokenizers.src.encode(line) for line in lines]
    for cut in translator.cut_lines([len(ids) for ids in sources]):
        on_cut(cut)
    pieces = [cut_evenly(ids, translator.longest_source) for ids in sources]
    starts = [prefix.strip() for prefix in prefixes or [""] * len(lines)]
    forced = [translator.tokenizers.tgt.encode(start) for start in starts]
    remaining = iter(
        translator.search_ids(
            [[*piece, EOS_ID] for of_line in pieces for piece in of_line],
            [
                ids if number == 0 else []
                for ids, of_line in zip(forced, pieces, strict=True)
                for number in range(len(of_line))
            ],
            progress,
            give_up,
        )
    )
    drafts = []
    for line, start, ids, of_line in zip(lines, starts, forced, pieces, strict=True):
        found = zip(*[next(remaining) for _ in of_line], strict=False)
        drafts.append(
            [Draft(line, start, ids, of_line, each) for each in islice(found, n_best)]
            or [Draft(line, "", [], [], ())]
        )
    return finished(translator, drafts, linked)


def cut_evenly(ids: list[int], longest: int) -> list[list[int]]:
    """Cut ids into as few pieces of at most ``longest`` as will do, as equal as can be.

    A line of nothing but white space, or of characters that are none to see, has no piece.
    """
    count = -(-len(ids) // longest)
    ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(ends)]


def refuse_long_prefix(translator: "Translator", text: str, line: int) -> None:
    """Make sure that the model has positions enough for what a translation begins with.

    Raises:
        InputError: it has not.
    """
    limit = translator.positions
    if limit is None:
        return
    tokens = len(translator.tokenizers.tgt.encode(text))
    if tokens >= limit:
        raise InputError(
            f"prefix of line {line:,}: {tokens:,} tokens, but this model's learned positions "
            f"take {limit - 1:,} (model.max_positions); give a shorter one"
        )

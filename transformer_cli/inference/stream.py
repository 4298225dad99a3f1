"""Translating text as a stream: a record for each line, in constant memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from transformer_cli.errors import InputError
from transformer_cli.inference.drafts import Translation
from transformer_cli.inference.lines import CutLine, ignore, refuse_long_prefix, translate_lines
from transformer_cli.inference.translator import Translator
from transformer_cli.ranks import ALONE, Ranks

CHUNK_LINES = 4096
"""Lines read, sorted by length and translated together when translating a stream."""


@dataclass(frozen=True)
class Form:
    """What is written of a line.

    Attributes:
        n_best: most translations, as a JSON object with their scores; None: the best one's text.
        linked: whether the alignment of the best one is a second thing that is written.
    """

    n_best: int | None = None
    linked: bool = False

    def record(self, line: int, translations: Sequence[Translation]) -> list[str]:
        """What is written of line number ``line``: one string or two."""
        best = translations[0]
        text = best.text if self.n_best is None else _as_json(line, translations)
        return [text, *([_as_pharaoh(best.links)] if self.linked else [])]


def _as_json(line: int, translations: Sequence[Translation]) -> str:
    record = {
        "line": line,
        "translations": [
            {
                "text": each.text,
                "score": round(each.score, 4),
                "log_probability": round(each.log_probability, 4),
            }
            for each in translations
        ],
    }
    return json.dumps(record, ensure_ascii=False)


def _as_pharaoh(links: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{src}-{tgt}" for src, tgt in links)


def with_prefixes(
    lines: Iterable[str], prefixes: Iterable[str] | None, name: str, first_line: int = 1
) -> Iterator[tuple[str, str]]:
    """Each line with its prefix; without any, with an empty one.

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
    remaining = iter(prefixes)
    for number, line in enumerate(lines, start=first_line):
        prefix = next(remaining, None)
        if prefix is None:
            raise InputError(
                f"{name}: ends before line {number:,}, which the input has; give a line, empty or "
                "not, for each of the input's"
            )
        yield line, prefix
        first_line = number + 1
    if next(remaining, None) is not None:
        raise InputError(
            f"{name}: goes on with line {first_line:,}, which the input does not have; give a line "
            "for each of the input's"
        )


def translate_stream(
    translator: Translator,
    lines: Iterable[tuple[str, str]],
    form: Form = Form(),
    chunk_lines: int = CHUNK_LINES,
    first_line: int = 1,
    on_cut: Callable[[CutLine], object] = ignore,
    ranks: Ranks = ALONE,
) -> Iterator[list[str]]:
    """One record a line, in order, holding ``chunk_lines`` of them at a time.

    Args:
        translator: what translates.
        lines: text without line ends, and what its translations begin with.
        form: what is in a record.
        chunk_lines: lines sorted by length and translated together, on each rank.
        first_line: the number of the first line.
        on_cut: told of each line too long to be translated as one, on the rank that has it.
        ranks: who shares the work; all of them get all records.
    """
    remaining = iter(lines)
    for first in remaining:
        chunk = [first, *islice(remaining, chunk_lines * ranks.size - 1)]
        for number, (_, prefix) in enumerate(chunk, start=first_line):
            refuse_long_prefix(translator, prefix, number)  # on all ranks alike
        share = partial(_translate_share, translator, form, first_line, on_cut, ranks)
        yield from ranks.map(share, chunk)
        first_line += len(chunk)


def _translate_share(
    translator: Translator,
    form: Form,
    first_line: int,
    on_cut: Callable[[CutLine], object],
    ranks: Ranks,
    lines: Sequence[tuple[str, str]],
) -> list[list[str]]:
    def number(index: int) -> int:
        """That of a line of this rank's share."""
        return first_line + ranks.rank + index * ranks.size

    found = translate_lines(
        translator,
        [line for line, _ in lines],
        [prefix for _, prefix in lines],
        form.n_best or 1,
        form.linked,
        on_cut=lambda cut: on_cut(replace(cut, line=number(cut.line - 1))),
    )
    return [form.record(number(index), each) for index, each in enumerate(found)]

"""Translation of a stream of text: a record for each line, in constant memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from transformer_cli.errors import InputError
from transformer_cli.inference.engine import SearchEngine, ignore
from transformer_cli.inference.lines import LongLine, Translation
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.text.reserved import compare_placeholders

CHUNK_LINES = 4096
"""Lines read, sorted by length and translated together when translating a stream."""


@dataclass(frozen=True)
class OutputFormat:
    """How translations are written.

    Attributes:
        n_best: most translations, as a JSON object with their scores; None: the best one's text.
        with_alignments: whether the alignment of the best one is written too.
    """

    n_best: int | None = None
    with_alignments: bool = False

    def to_record(self, line: int, translations: Sequence[Translation]) -> "TranslatedLine":
        """Return what is written of line ``line``."""
        best = translations[0]
        text = best.text if self.n_best is None else _to_json(line, translations)
        return TranslatedLine(text, _to_pharaoh(best.alignment) if self.with_alignments else "")


class TranslatedLine(NamedTuple):
    """What is written of a line."""

    text: str
    alignment: str = ""
    """Empty if nobody asked."""
    difference: str = ""
    """How the placeholders of line and translation differ; empty if they are the same."""


def _to_json(line: int, translations: Sequence[Translation]) -> str:
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


def _to_pharaoh(alignment: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{src}-{tgt}" for src, tgt in alignment)


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
    translator: TextTranslator[SearchEngine],
    lines: Iterable[tuple[str, str]],
    output_format: OutputFormat = OutputFormat(),
    chunk_lines: int = CHUNK_LINES,
    first_line: int = 1,
    on_long_line: Callable[[LongLine], object] = ignore,
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
        share = partial(
            _translate_share, translator, output_format, first_line, on_long_line, ranks
        )
        yield from (TranslatedLine(*fields) for fields in ranks.map(share, chunk))
        first_line += len(chunk)


def _translate_share(
    translator: TextTranslator[SearchEngine],
    output_format: OutputFormat,
    first_line: int,
    on_long_line: Callable[[LongLine], object],
    ranks: Ranks,
    lines: Sequence[tuple[str, str]],
) -> list[list[str]]:
    def number(index: int) -> int:
        """Return the number of a line of this rank's share."""
        return first_line + ranks.rank + index * ranks.size

    found = translator.translate_lines(
        [line for line, _ in lines],
        [prefix for _, prefix in lines],
        output_format.n_best or 1,
        output_format.with_alignments,
        on_long_line=lambda line: on_long_line(replace(line, line=number(line.line - 1))),
    )
    protect = translator.tokenizers.protect
    return [
        [
            *output_format.to_record(number(index), each)._replace(
                difference=compare_placeholders(line, each[0].text, protect)
            )
        ]
        for index, ((line, _), each) in enumerate(zip(lines, found, strict=True))
    ]

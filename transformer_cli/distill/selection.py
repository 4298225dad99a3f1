"""Choose one of several translations of each line."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformer_cli.data.corpus import stream_lines
from transformer_cli.errors import InputError
from transformer_cli.files import whole_file


def select_nearest(
    candidates: Path, references: Path, output: Path, lowercase: bool = False
) -> None:
    """Write the candidate nearest to its reference, line by line.

    Args:
        candidates: n-best lists, as ``translate --n-best`` writes them.
        references: a line each.
        output: where to; it appears when it is whole.
        lowercase: whether case is ignored: candidates may have none.

    Raises:
        InputError: the numbers of lines differ.
    """
    lists, lines = (sum(1 for _ in stream_lines(path)) for path in (candidates, references))
    if lists != lines:
        raise InputError(
            f"{candidates} has {lists:,} lists, but {references} has {lines:,} lines; delete the "
            "former, and it is made again"
        )
    with whole_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        candidate_lists = map(_texts, stream_lines(candidates))
        for line in nearest(candidate_lists, stream_lines(references), lowercase):
            file.write(f"{line}\n")


def nearest(
    candidates: Iterable[list[str]], references: Iterable[str], lowercase: bool = False
) -> Iterator[str]:
    """Yield the candidate of each line with the highest chrF; of equal ones, the likeliest.

    Args:
        candidates: of each line, the likeliest first.
        references: a line each.
        lowercase: whether case is ignored.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(lowercase=lowercase)
    for texts, reference in zip(candidates, references, strict=True):
        # Two segmentations of one text are two hypotheses.
        different = [*dict.fromkeys(texts)]
        if len(different) == 1:
            yield different[0]
            continue
        scores = [metric.sentence_score(text, [reference]).score for text in different]
        yield different[scores.index(max(scores))]


def _texts(line: str) -> list[str]:
    try:
        return [str(each["text"]) for each in json.loads(line)["translations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not an n-best list of translate's: {line[:60]}") from error

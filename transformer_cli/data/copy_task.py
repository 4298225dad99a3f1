"""The copy task: lines of random symbols that are their own translation."""

import hashlib
import random

from transformer_cli.config.data_schema import CopyData
from transformer_cli.data.corpus import ParallelText

# Draws before a line of the other kind is taken after all. Three lines in four are for training,
# so this many draws of the wrong kind (0.75^200) mean that there is no line of the right one.
_MOST_DRAWS = 200


def copy_lines(data: CopyData, split: str) -> ParallelText:
    """Draw a split's lines, the same ones every time.

    No line of ``val`` or ``test`` is in ``train``, except where there are so few possible lines
    (a handful of symbols, a line of one or two) that a side would have none left.

    Args:
        data: how many symbols, lines, and symbols in a line.
        split: ``train``, ``val`` or ``test``.

    Returns:
        Lines such as ``3 1 10 7``, with the target the same as the source.
    """
    generator = random.Random(f"copy task, {split}")
    symbols = [str(number) for number in range(1, data.symbols + 1)]
    training = split == "train"

    def draw() -> str:
        for _ in range(_MOST_DRAWS):
            line = " ".join(generator.choices(symbols, k=data.length))
            if _is_for_training(line) == training:
                break
        return line

    lines = [draw() for _ in range(data.train_lines if training else data.test_lines)]
    return ParallelText(lines, list(lines))


def _is_for_training(line: str) -> bool:
    """Return whether a line is for ``train``, by itself alone, so that splits are disjoint."""
    return hashlib.sha256(line.encode()).digest()[0] >= 64

"""Write the pairs of a corpus where they belong: into a split's files, or those left out."""

from collections.abc import Sequence
from itertools import compress, product
from pathlib import Path

import numpy as np

from transformer_cli.extensions.corpora.deciding import (
    SIDES,
    SPLITS,
    Part,
    read_part,
)

HELD_OUT = "held_out"
"""Reason why a pair is left out that shares a side with val or test."""
DROPPED = "dropped.tsv"


def append_splits(part: Part, fates: np.ndarray, directory: Path) -> None:
    """Append the pairs of a part to the files of their splits.

    ``fates`` are the splits' numbers, or larger ones for the pairs that are left out.
    """
    for side, (fate, split) in product(SIDES, SPLITS.items()):
        if (is_own := fates == fate).any():
            with (
                part.path(f"{side}.txt").open("rb") as text,
                (directory / f"{split}.{side}").open("ab") as file,
            ):
                file.writelines(compress(text, is_own.tobytes()))


def append_dropped(
    part: Part, fates: np.ndarray, names: Sequence[str], source: str, directory: Path
) -> None:
    """Append the pairs of a part that are left out to ``DROPPED``.

    ``names`` are those of all ``fates``, and ``source`` is the name of the part's source. A pair's
    number is its place among all pairs of all sources, from 1.
    """
    with (directory / DROPPED).open("ab") as file:
        is_dropped = (fates >= len(SPLITS)).tobytes()
        for place, (src, tgt) in compress(enumerate(read_part(part), 1), is_dropped):
            cells = (str(part.first + place), source, names[fates[place - 1]], src, tgt)
            file.write(("\t".join(cell.replace("\t", " ") for cell in cells) + "\n").encode())

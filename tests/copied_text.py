"""A tiny task as text files: lines of a few symbols that are their own translation."""

import hashlib
import random
from pathlib import Path

FILES = Path(__file__).parent / "fixtures" / "copied"
"""What ``write_copied`` writes by default: 200 lines of 4 out of 6 symbols, 20 to test on."""


def draw_lines(split: str, symbols: int = 6, length: int = 4, lines: int = 200) -> list[str]:
    """Return lines such as '3 1 6 2', the same ones every time; splits have none in common."""
    generator = random.Random(f"copy task, {split}")
    words = [str(number) for number in range(1, symbols + 1)]
    drawn: list[str] = []
    while len(drawn) < lines:
        line = " ".join(generator.choices(words, k=length))
        # Three lines in four are for training, by the line alone.
        if (hashlib.sha256(line.encode()).digest()[0] >= 64) == (split == "train"):
            drawn.append(line)
    return drawn


def write_copied(
    directory: Path, symbols: int = 6, length: int = 4, train_lines: int = 200, test_lines: int = 20
) -> str:
    """Write the files of all splits into ``directory``; return the settings of data as YAML."""
    directory.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val", "test"):
        drawn = draw_lines(split, symbols, length, train_lines if split == "train" else test_lines)
        for side in ("src", "tgt"):
            text = "".join(f"{line}\n" for line in drawn)
            (directory / f"{split}.{side}").write_text(text, encoding="utf-8", newline="")
    return describe(directory)


def describe(directory: Path) -> str:
    """Return the settings of what ``write_copied`` has written into ``directory``."""
    train, val, test = (
        f"{{src: '{directory / split}.src', tgt: '{directory / split}.tgt'}}"
        for split in ("train", "val", "test")
    )
    languages = "src_lang: xx, tgt_lang: xx"
    return f"{{kind: files, {languages}, train: {train}, val: {val}, test: {{test: {test}}}}}"


DATA = describe(FILES)
"""The settings of data for ``FILES``, as YAML."""
FEWER = f"data.train={{src: '{FILES / 'fewer.src'}', tgt: '{FILES / 'fewer.tgt'}'}}"
"""What trains on the first 150 lines only, for ``--set``."""

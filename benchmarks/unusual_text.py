"""Time per source token for unusual text, beside that for ordinary text.

    python -m benchmarks.unusual_text RUN --text FILE [--lines 1000]

FILE has ordinary source lines. Each kind of text has as many tokens as the ordinary text, and is
translated as `translate` does it, second searches included. The CPU time is the least of three.
"""

import argparse
import base64
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rounds import markdown_table
from transformer_cli.extensions.revision.options import RevisionOptions
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory

MOST = 3.0
"""The factor that no kind of text may exceed."""
_LETTERS = "etaoinshrdlu"


def make_kinds(lines: list[str], draw: random.Random) -> dict[str, Callable[[], str]]:
    """Return a function that draws a line, for each kind of text."""

    def word(letters: str = _LETTERS, most: int = 12) -> str:
        return "".join(draw.choice(letters) for _ in range(draw.randint(2, most)))

    def phrase(letters: str, count: int = 9) -> str:
        return " ".join(word(letters) for _ in range(count))

    return {
        "capitals": lambda: draw.choice(lines).upper(),
        "another script": lambda: phrase("αβγδεζηθικλμνξοπρστυφχψω"),
        "ideographs": lambda: "".join(chr(draw.randrange(0x4E00, 0x9000)) for _ in range(30)),
        "base64": lambda: base64.b64encode(draw.randbytes(90)).decode(),
        "one character, 1,000 times": lambda: draw.choice(_LETTERS) * 1000,
        "words without spaces": lambda: "".join(draw.choice(lines).split()) * 20,
        "nonsense words": lambda: phrase(_LETTERS),
        "emoji": lambda: "".join(chr(draw.randrange(0x1F600, 0x1F640)) for _ in range(20)),
        "numbers": lambda: " ".join(str(draw.randrange(10**9)) for _ in range(6)),
        "code": lambda: f"for ({word()}={word()}; {word()}<{draw.random()}; ++{word()}) {{",
        "one word, 50 times": lambda: f"{word()} " * 50,
    }


def main() -> None:
    """Print a table in Markdown; exit with 1 if a kind of text takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    given = parser.parse_args()
    lines = given.text.read_text(encoding="utf-8").splitlines()[: given.lines]
    loaded = load_translator(RunDirectory(given.run), "best", ComputeOptions(threads=1))
    translator = RevisionOptions().prepare(loaded, NoMarks())
    tokens = _count(translator, lines)
    translator.translate(lines)  # the first time takes longer
    usual = _time(translator, lines) / tokens
    rows = [("ordinary", f"{tokens:,}", f"{1e6 * usual:.0f}", "1.00")]
    slow = []
    for name, make in make_kinds(lines, random.Random(1)).items():
        unusual: list[str] = []
        while (count := _count(translator, unusual)) < tokens:
            unusual += [make() for _ in range(max(1, len(unusual) // 4))]
        took = _time(translator, unusual) / count
        rows.append((name, f"{count:,}", f"{1e6 * took:.0f}", f"{took / usual:.2f}"))
        if took > MOST * usual:
            slow.append(name)
    print(markdown_table(("text", "tokens", "µs a token", "factor"), rows))
    sys.exit(f"more than {MOST:g} times as slow: {', '.join(slow)}" if slow else 0)


class NoMarks:
    """Options of `translate` none of which is given."""

    def marked(self, _: str) -> list[object]:
        """Return no options."""
        return []


def _count(translator: TextTranslator[Any], lines: list[str]) -> int:
    return sum(len(translator.tokenizers.src.encode(line)) for line in lines)


def _time(translator: TextTranslator[Any], lines: list[str]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        translator.translate(lines)
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()

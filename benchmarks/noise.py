"""Known noise at known places in Multi30k's training text, and what the filters make of it.

    python -m benchmarks.noise --out DIR            # writes DIR/noisy.de, noisy.en, noise.jsonl
    python -m benchmarks.noise --out DIR --score    # also prints what each filter finds

Seven kinds of noise replace a fifth of the 29,000 German-English pairs; three more are added, a
tenth. noise.jsonl has a line for each noisy pair: its line number in both files, and its kind.
"""

import argparse
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.noise_phrases import OTHER_SCRIPT, SAME_SCRIPT, make_boilerplate, make_caption
from benchmarks.noise_scores import score_filters
from transformer_cli.base.text_files import write_text
from transformer_cli.data.corpus import ParallelFiles

Pair = tuple[str, str]
SEED = 19

REPLACED = {
    "misaligned": 0.06,
    "other language": 0.03,
    "other script": 0.01,
    "swapped sides": 0.02,
    "copied side": 0.04,
    "mojibake": 0.02,
    "damaged characters": 0.02,
}
"""Shares of the pairs that noise replaces, by kind."""
ADDED = {"boilerplate": 0.04, "near-duplicate": 0.04, "duplicate": 0.02}
"""Shares that are added."""
KINDS = (*REPLACED, *ADDED)
_CONTROLS = "\x01\x08\x1b\x7f\x85\x96"


def main() -> None:
    """Write the noisy text, and score the filters on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--score", action="store_true")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    noisy = inject(read_clean(), random.Random(SEED))
    pairs, kinds = [pair for pair, _ in noisy], [kind for _, kind in noisy]
    write_text(out / "noisy.de", "".join(f"{src}\n" for src, _ in pairs))
    write_text(out / "noisy.en", "".join(f"{tgt}\n" for _, tgt in pairs))
    records = ({"line": n, "kind": kind} for n, kind in enumerate(kinds, start=1) if kind)
    write_text(out / "noise.jsonl", "".join(f"{json.dumps(each)}\n" for each in records))
    print(f"{len(noisy):,} pairs:", dict(Counter(kind or "clean" for kind in kinds)))
    if options.score:
        print(score_filters(pairs, kinds))


def read_clean() -> list[Pair]:
    """Return Multi30k's training pairs, German to English."""
    directory = Path(os.environ["MULTI30K_DIR"])
    return list(ParallelFiles(directory / "train.de.gz", directory / "train.en.gz").pairs())


def inject(pairs: list[Pair], draw: random.Random) -> list[tuple[Pair, str | None]]:
    """Return noisy pairs, each with its kind of noise; None for those as they were."""
    order = list(range(len(pairs)))
    draw.shuffle(order)
    placed: list[tuple[float, Pair, str | None]] = []
    for kind, share in REPLACED.items():
        # UTF-8 read as another encoding shows in letters beyond ASCII only.
        fit = [i for i in order if kind != "mojibake" or not pairs[i][0].isascii()]
        chosen = fit[: round(share * len(pairs))]
        order = sorted(set(order) - set(chosen))
        draw.shuffle(order)
        placed += _replace(kind, chosen, pairs, draw)
    clean = sorted(order)
    placed += [(i, pairs[i], None) for i in clean]
    for kind, share in ADDED.items():
        for _ in range(round(share * len(pairs))):
            original = draw.choice(clean)
            pair = _ADDITIONS[kind](pairs[original], draw)
            # A repeated pair stands after the one that it repeats.
            first = 0 if kind == "boilerplate" else original + 0.1
            placed.append((draw.uniform(first, len(pairs)), pair, kind))
    return [(pair, kind) for _, pair, kind in sorted(placed, key=lambda each: each[0])]


def _replace(
    kind: str, chosen: list[int], pairs: list[Pair], draw: random.Random
) -> list[tuple[float, Pair, str | None]]:
    if kind == "misaligned":  # each has the target of the next one
        return [
            (i, (pairs[i][0], pairs[j][1]), kind)
            for i, j in zip(chosen, chosen[1:] + chosen[:1], strict=True)
        ]
    return [(i, _REPLACEMENTS[kind](pairs[i], draw), kind) for i in chosen]


def _put_one_side(pair: Pair, line: str, draw: random.Random) -> Pair:
    return (line, pair[1]) if draw.random() < 0.5 else (pair[0], line)


def _copy_a_side(pair: Pair, draw: random.Random) -> Pair:
    side = draw.choice(pair)
    return side, side


def _read_as_windows(pair: Pair, draw: random.Random) -> Pair:
    # Windows-1252 lacks five bytes, which Latin-1 has.
    encoding = draw.choice(("cp1252", "latin-1"))
    sides = []
    for side in pair:
        raw = side.encode()
        try:
            sides.append(raw.decode(encoding))
        except UnicodeDecodeError:
            sides.append(raw.decode("latin-1"))
    return sides[0], sides[1]


def _damage(pair: Pair, draw: random.Random) -> Pair:
    """Put U+FFFD in a letter's place, or a control character between two."""
    side = draw.randrange(2)
    line = pair[side]
    at = draw.randrange(len(line))
    if draw.random() < 0.5:
        line = f"{line[:at]}\ufffd{line[at + 1 :]}"
    else:
        line = f"{line[:at]}{draw.choice(_CONTROLS)}{line[at:]}"
    return (line, pair[1]) if side == 0 else (pair[0], line)


def _vary(pair: Pair, draw: random.Random) -> Pair:
    """Change case, punctuation, white space or digits on both sides."""
    number = draw.randrange(2, 100)
    changes: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.lower,
        lambda line: line.rstrip(" .") + "!",
        lambda line: f"{line.rstrip(' .')} ...",
        lambda line: f'"{line}"',
        lambda line: line.replace(" ", "  "),
        lambda line: f"{number}. {line}",
    )
    change = draw.choice(changes)
    return change(pair[0]), change(pair[1])


_REPLACEMENTS: dict[str, Callable[[Pair, random.Random], Pair]] = {
    "other language": lambda pair, draw: _put_one_side(
        pair, make_caption(draw.choice(SAME_SCRIPT), draw), draw
    ),
    "other script": lambda pair, draw: _put_one_side(
        pair, make_caption(draw.choice(OTHER_SCRIPT), draw), draw
    ),
    "swapped sides": lambda pair, draw: (pair[1], pair[0]),
    "copied side": _copy_a_side,
    "mojibake": _read_as_windows,
    "damaged characters": _damage,
}
_ADDITIONS: dict[str, Callable[[Pair, random.Random], Pair]] = {
    "boilerplate": lambda pair, draw: make_boilerplate(draw),
    "near-duplicate": _vary,
    "duplicate": lambda pair, draw: pair,
}

if __name__ == "__main__":
    main()

"""The share of lines whose translation keeps all placeholders, tags and URLs.

``python -m benchmarks.kept_placeholders SRC REF HYP…`` compares each translation with its source,
line by line; one that is twice in a line has to be twice in the other. The reference is judged
too, since translators change some of them, as '<file>' to '<Datei>'; so each file is also judged on
the lines whose reference keeps all.
"""

import argparse
from collections.abc import Collection
from pathlib import Path

from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS, Group, find_verbatim
from transformer_cli.text.lines import stream_lines


def count_lines(
    src: list[str], texts: dict[Path, list[str]], groups: tuple[Group, ...]
) -> tuple[list[int], dict[Path, set[int]]]:
    """Return the lines, from 0, that have placeholders, and of each text those that keep them."""
    having = [number for number, line in enumerate(src) if find_verbatim(line, groups)]
    kept = {
        path: {n for n in having if not compare_placeholders(src[n], tgt[n], groups)}
        for path, tgt in texts.items()
    }
    return having, kept


def main() -> None:
    """Print a table with a row for each group and file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path, nargs="+", metavar="REF HYP")
    parser.add_argument("--failures", action="store_true", help="print the lines that lose one")
    asked = parser.parse_args()
    texts = {path: list(stream_lines(path)) for path in (asked.src, *asked.tgt)}
    src = texts.pop(asked.src)
    for path, tgt in texts.items():
        if len(tgt) != len(src):
            raise SystemExit(f"{path}: {len(tgt)} lines, but {asked.src} has {len(src)}")
    print("group   lines   kept   share    of those that the reference keeps  file")
    for groups in (GROUPS, *((group,) for group in GROUPS)):
        having, kept = count_lines(src, texts, groups)
        fair = kept[asked.tgt[0]]
        for path in texts:
            shares = f"{_share(kept[path], having)}  {_share(kept[path] & fair, fair):>33}"
            name = groups[0] if len(groups) == 1 else "all"
            print(f"{name:<6} {len(having):6,} {len(kept[path]):6,}  {shares}  {path}")
    if asked.failures:
        having, kept = count_lines(src, texts, GROUPS)
        for number in having:
            for path, tgt in texts.items():
                if number not in kept[path]:
                    print(f"{path}:{number + 1}:\n  {src[number]}\n  {tgt[number]}")


def _share(part: Collection[int], whole: Collection[int]) -> str:
    return f"{len(part) / len(whole):6.1%}" if whole else "     -"


if __name__ == "__main__":
    main()

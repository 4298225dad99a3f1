"""A list of terms, drawn from the messages of some packages, for the messages of others.

``python -m benchmarks.terms data/everyday/strings.tsv data/everyday/strings-test.tsv -o terms.tsv``
reads tables of ``benchmarks.everyday_text``, with the columns origin, de and en, and writes the
terms of the first. A term is a message of one to three words, 'Folder', whose translation,
'Ordner', is also said in longer messages, of two packages at least: in 70 % of those that have the
term, and in three. It then prints how many of these terms the second table has, and what share of
them its references keep. ``evaluate RUN --terms terms.tsv`` measures a model's share.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from transformer_cli.extensions.constraints.terms import (
    Term,
    TermList,
    lost_terms,
    make_term,
    split_words,
)

_MOST_WORDS = 3
_LEAST_LINES = 3
_LEAST_PACKAGES = 2
_LEAST_SHARE = 0.7
_LEAST_LETTERS = 4  # of a term, and of a word whose endings may be others


def read_rows(path: Path, src: str, tgt: str) -> list[tuple[str, str, str]]:
    """Return each pair of a table, behind its package."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["origin"], row[src], row[tgt]) for row in rows]


def find_candidates(rows: Iterable[tuple[str, str, str]]) -> list[Term]:
    """Return the short messages and their most frequent translations."""
    translations: dict[str, Counter[str]] = defaultdict(Counter)
    for _, src, tgt in rows:
        words = [side.replace("_", "").replace("&", "").strip(" .:…") for side in (src, tgt)]
        counts = [len(split_words(side)) for side in words]
        is_short = all(0 < count <= _MOST_WORDS for count in counts)
        if is_short and all(side.replace(" ", "").isalpha() for side in words):
            translations[words[0].lower()][words[1]] += 1
    best = {src: found.most_common(1)[0][0] for src, found in translations.items()}
    return [
        make_term(src, [tgt]) for src, tgt in sorted(best.items()) if len(src) >= _LEAST_LETTERS
    ]


def select(candidates: list[Term], rows: Iterable[tuple[str, str, str]]) -> list[Term]:
    """Return the terms that longer messages keep to, in several packages."""
    listed = TermList(candidates)
    having: Counter[Term] = Counter()
    keeping: Counter[Term] = Counter()
    packages = defaultdict(set)
    for package, src, tgt in rows:
        if len(split_words(src)) > _MOST_WORDS:
            for term, _, _ in listed.find(src):
                having[term] += 1
                # A capital inside of a German sentence is a noun's.
                if f" {term.target}" in tgt:
                    keeping[term] += 1
                    packages[term].add(package)
    return [
        term
        for term in candidates
        if keeping[term] >= max(_LEAST_LINES, _LEAST_SHARE * having[term])
        and len(packages[term]) >= _LEAST_PACKAGES
    ]


def describe(term: Term, with_endings: bool) -> str:
    """Return a term's row: its translation, and perhaps the same with any ending."""
    target = term.target
    if with_endings and len(target.split()[-1]) >= _LEAST_LETTERS:
        target += f"|{target}*"
    return f"{' '.join(term.source)}\t{target}\n"


def main() -> None:
    """Write the list, and print what there is of it in the other table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SRC", "TGT"))
    parser.add_argument("--endings", action="store_true", help="accept other endings, too")
    asked = parser.parse_args()
    rows = read_rows(asked.table, *asked.languages)
    terms = select(find_candidates(rows), rows)
    asked.output.write_text("".join(describe(term, asked.endings) for term in terms), "utf-8")
    listed, test = TermList(terms), read_rows(asked.test, *asked.languages)
    found = [[each.term for each in listed.find(src)] for _, src, _ in test]
    total = sum(map(len, found))
    lost = sum(len(lost_terms(of, tgt)) for of, (*_, tgt) in zip(found, test, strict=True))
    print(f"{asked.output}: {len(terms):,} terms from {asked.table}")
    print(f"{asked.test}: {total:,} terms, of which references keep {1 - lost / max(1, total):.1%}")


if __name__ == "__main__":
    main()

"""German and English text of Debian's packages, of three kinds, each with a held-out test.

``python -m benchmarks.everyday_text`` downloads packages and lists with apt, on Debian or Ubuntu,
and writes into data/everyday

- strings.tsv: messages of programs (see debian_strings, also for whose they are),
- descriptions.tsv: the packages' descriptions, paired by their sums, by paragraph or by sentence,
- libreoffice.tsv: LibreOffice's messages, and its help, paired by the paragraphs' ids,

and of each NAME-test.tsv, with the columns origin, de and en. configs/everyday_de_en.yaml trains
on them, on Tatoeba (data/tatoeba) and on Multi30k (data/multi30k).

Held out means held out: no test pair has a side that is trained on in any of the five, and no
package, family of packages, catalog or page of help is on both sides.
"""

import argparse
import csv
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from benchmarks.debian_strings import PACKAGES, download, fetch_catalogs
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.units import one_line

OUT = Path("data/everyday")
TATOEBA = Path("data/tatoeba")
MULTI30K = Path("data/multi30k")
TEST_PAIRS = 1000
MAX_OF_ORIGIN = 250

# Images of containers switch the descriptions' translations off. Lists of its own: nobody's
# machine is changed.
_APT_CONF = """\
#include "/etc/apt/apt.conf.d/";
#clear Acquire::Languages;
Acquire::Languages {{ "en"; "de"; }};
Dir::Etc::parts "/dev/null";
Dir::State::lists "{lists}";
"""
_STANZA = re.compile(r"Package: (\S+)\nDescription-md5: (\w+)\nDescription-\w+: (.*)\n((?: .*\n)*)")
_NEW_PARAGRAPH = re.compile(r"^ +([*o+-] +|\.$)", re.MULTILINE)
_NEW_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-ZÄÖÜ])")
_TEXT_ID = re.compile(r"(?:hd|par)_id")
_HELP = "libreoffice-help-{}", "usr/share/libreoffice/help/{}/text"


class Pair(NamedTuple):
    """A pair and what it is from: a package, a family of packages, a catalog or a page."""

    origin: str
    de: str
    en: str

    def sides(self) -> set[str]:
        """Return both sides, case and white space aside."""
        return {fold(self.de), fold(self.en)}


def fold(text: str) -> str:
    """Return a text without differences of case and white space."""
    return " ".join(text.casefold().split())


def read_messages(packages: list[str], out: Path, origin: str) -> Iterator[Pair]:
    """Yield the messages of packages; their origin is their ``package`` or their ``domain``."""
    for catalog in fetch_catalogs(packages, out):
        for en, de in catalog.pairs():
            yield Pair(getattr(catalog, origin), one_line(de, "de"), one_line(en, "en"))


def read_descriptions(out: Path) -> Iterator[Pair]:
    """Fetch the lists of descriptions, and yield pairs of those that are translated.

    Their origin is the package's name up to its first hyphen: foo-data describes foo once more.
    """
    (out / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    configuration = out / "apt.conf"
    configuration.write_text(_APT_CONF.format(lists=(out / "lists").resolve()))
    environment = {**os.environ, "APT_CONFIG": str(configuration.resolve())}
    subprocess.run(["apt-get", "update"], env=environment, check=True)
    english = {md5: texts for _, md5, *texts in _read_stanzas(out, "en")}
    for package, md5, *texts in _read_stanzas(out, "de"):
        if md5 in english:
            for en, de in zip(english[md5], texts, strict=True):
                for pair in pair_sentences(de, en):
                    yield Pair(package.split("-")[0], *pair)


def _read_stanzas(out: Path, language: str) -> Iterator[tuple[str, ...]]:
    """Yield package, sum, short and long description."""
    for path in sorted((out / "lists").glob(f"*_Translation-{language}*")):
        text = subprocess.check_output(["/usr/lib/apt/apt-helper", "cat-file", path], text=True)
        for stanza in _STANZA.finditer(text):
            yield stanza.groups()


def pair_sentences(de: str, en: str) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of two texts if both have as many, their sentences if these are."""
    for paragraphs in _zip_equals(_paragraphs(de), _paragraphs(en)):
        sentences = [_NEW_SENTENCE.split(paragraph) for paragraph in paragraphs]
        yield from _zip_equals(*sentences) or [paragraphs]


def _paragraphs(text: str) -> list[str]:
    parts = re.split(r"\n\s*\n", _NEW_PARAGRAPH.sub("\n", text))
    return [" ".join(part.split()) for part in parts if part.strip()]


def _zip_equals(de: list[str], en: list[str]) -> list[tuple[str, str]]:
    return list(zip(de, en, strict=True)) if len(de) == len(en) else []


class HelpPage(HTMLParser):
    """The headings and paragraphs of a page of help, by their ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self._id = self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a text."""
        name = dict(attrs).get("id") or ""
        if _TEXT_ID.match(name) and name not in self.texts:
            self._id, self._tag, self.texts[name] = name, tag, ""

    def handle_data(self, data: str) -> None:
        """Add to the text that was begun."""
        if self._id:
            self.texts[self._id] += data

    def handle_endtag(self, tag: str) -> None:
        """End the text at its own tag."""
        if tag == self._tag and self._id:
            self.texts[self._id] = " ".join(self.texts[self._id].split())
            self._id = ""


def read_help(out: Path) -> Iterator[Pair]:
    """Download LibreOffice's help, and yield the pairs of each page."""
    package, directory = _HELP
    for file in download([package.format("de"), package.format("en-us")], out / "debs"):
        subprocess.run(["dpkg-deb", "-x", file, out / "unpacked"], check=True)
    german, english = (out / "unpacked" / directory.format(each) for each in ("de", "en-US"))
    for path in sorted(german.rglob("*.html")):
        page = path.relative_to(german)
        if (english / page).is_file():
            de, en = (HelpPage((each / page).read_text("utf-8")) for each in (german, english))
            for name, text in de.texts.items():
                yield Pair(str(page), text, en.texts.get(name, ""))


def read_others() -> tuple[set[str], set[str]]:
    """Return the sides of Tatoeba's and Multi30k's pairs: to train on, and to test on."""
    known: set[str] = set()
    held: set[str] = set()
    zipped = SourceConfig(tsv=TATOEBA / "deu-eng.zip" / "deu.txt", src_column=2, tgt_column=1)
    _add_sides(known, open_source(zipped, "de", "en").pairs())
    published = ParallelFiles(TATOEBA / "test.de.gz", TATOEBA / "test.en.gz")
    _add_sides(held, published.pairs())
    for german in MULTI30K.glob("*.de.gz"):
        english = german.with_name(german.name.replace(".de.", ".en."))
        is_trained = german.name == "train.de.gz"
        _add_sides(known if is_trained else held, ParallelFiles(german, english).pairs())
    return known, held


def _add_sides(sides: set[str], pairs: Iterable[tuple[str, str]]) -> None:
    sides.update(fold(side) for pair in pairs for side in pair)


def draw_test(pairs: list[Pair], known: set[str]) -> tuple[list[Pair], list[Pair]]:
    """Draw test pairs of whole origins; return them, and the pairs of all other origins.

    Origins come in the order of their sums. Each gives some of those pairs that differ in their
    sides and that have none in ``known``.
    """
    origins: dict[str, list[Pair]] = {}
    for pair in pairs:
        origins.setdefault(pair.origin, []).append(pair)
    test: list[Pair] = []
    order = iter(sorted(origins, key=_sum))
    while len(test) < TEST_PAIRS:
        held = origins.pop(next(order))
        fresh = [pair for pair in held if not pair.sides() & known and len(pair.sides()) == 2]
        test += sorted(fresh, key=lambda pair: _sum(pair.de))[:MAX_OF_ORIGIN]
    return test[:TEST_PAIRS], [pair for held in origins.values() for pair in held]


def _sum(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def write(pairs: list[Pair], path: Path) -> None:
    """Write pairs as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, "excel-tab", quoting=csv.QUOTE_NONE, quotechar=None)
        writer.writerows([Pair._fields, *pairs])


def main() -> None:
    """Fetch, pair, hold out and write; print the numbers of pairs."""
    argparse.ArgumentParser(prog="python -m benchmarks.everyday_text", description=__doc__)
    known, held = read_others()
    office = read_messages(["libreoffice-l10n-de"], OUT / "office", "domain")
    texts = {
        "strings": list(read_messages(PACKAGES, OUT / "strings", "package")),
        "descriptions": list(read_descriptions(OUT)),
        "libreoffice": [*office, *read_help(OUT / "help")],
    }
    drawn = {}
    for name, pairs in texts.items():
        whole = list(dict.fromkeys(pair for pair in pairs if pair.de.strip() and pair.en.strip()))
        test, texts[name] = drawn[name] = draw_test(whole, known)
        held.update(side for pair in test for side in pair.sides())
    for name, (test, rest) in drawn.items():
        train = [pair for pair in rest if not pair.sides() & held]
        write(train, OUT / f"{name}.tsv")
        write(test, OUT / f"{name}-test.tsv")
        print(
            f"{name}: {len(train):,} pairs, {len(rest) - len(train):,} left out, {len(test):,} test"
        )


if __name__ == "__main__":
    main()

"""Real software strings, English and German: the message catalogs of Debian packages.

``python -m benchmarks.debian_strings --out DIR [--language ja]`` downloads the packages with apt,
on Debian or Ubuntu, and writes each message with its translation to

- DIR/strings.tmx, a translation memory,
- DIR/strings.tsv, with the columns package, domain, en and de (or the other language),
- DIR/po/PACKAGE.DOMAIN.po, one file a catalog, with its header.

It prints a table of the packages. The strings are the packages' authors' and translators', under
the packages' licences (usr/share/doc/PACKAGE/copyright; mostly GPL). They are for experiments on
the machine that fetched them: nothing of them is in this repository, so do not commit or publish
them.
"""

import argparse
import csv
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.corpora.units import one_line

PACKAGES = [
    "apt",
    "aptitude-common",
    "audacity-data",
    "bash",
    "binutils-common",
    "coreutils",
    "darktable",
    "digikam-data",
    "dolphin",
    "dpkg",
    "epiphany-browser-data",
    "evolution-common",
    "gcc-12-locales",
    "gedit-common",
    "gettext",
    "gimp-data",
    "git",
    "gnome-control-center-data",
    "gnucash-common",
    "gnumeric-common",
    "gnupg-l10n",
    "kdenlive-data",
    "kio",
    "kmail",
    "korganizer",
    "krita-l10n",
    "libc-l10n",
    "libglib2.0-data",
    "libgtk-3-common",
    "mutt",
    "nautilus-data",
    "network-manager",
    "network-manager-gnome",
    "okular",
    "pidgin-data",
    "rhythmbox-data",
    "synaptic",
    "util-linux-locales",
    "vlc-l10n",
]
_CATALOG = r"\./usr/(?:share/locale|lib/libreoffice/program/resource)/{}/LC_MESSAGES/([^/]+)\.mo"
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TMX_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
<header creationtool="debian_strings" creationtoolversion="1" segtype="block" o-tmf="mo"
 adminlang="en" srclang="en" datatype="plaintext"/>
<body>
"""
_UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>\n'


class Catalog(NamedTuple):
    """A package's messages of one domain."""

    package: str
    domain: str
    messages: Any
    """A ``polib.MOFile``; polib has no types."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each message with its translation; of one with a plural, each form.

        A language's only form, as Japanese has, translates the plural.
        """
        for entry in self.messages:
            if not entry.msgid_plural:
                yield entry.msgid, entry.msgstr
                continue
            forms = entry.msgstr_plural
            messages = [entry.msgid, entry.msgid_plural] if len(forms) > 1 else [entry.msgid_plural]
            for number, message in enumerate(messages):
                yield message, forms[number]


def download(packages: list[str], directory: Path) -> list[Path]:
    """Download packages, and return the paths of their files."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *packages], cwd=directory, check=True)
    return sorted(directory.glob("*.deb"))


def unpack_catalogs(package: Path, directory: Path, language: str = "de") -> list[Path]:
    """Unpack a language's catalogs of a package file, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    catalog = re.compile(_CATALOG.format(re.escape(language)))
    paths = []
    with (
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as files,
    ):
        for member in files:
            file = files.extractfile(member) if member.isfile() else None
            if file is not None and (found := catalog.fullmatch(member.name)):
                paths.append(directory / f"{found[1]}.mo")
                paths[-1].write_bytes(file.read())
    if unpacking.returncode:
        raise subprocess.CalledProcessError(unpacking.returncode, unpacking.args)
    return paths


def read_catalog(package: str, path: Path, language: str = "de") -> Catalog:
    """Read an MO file, without messages that no XML file can hold."""
    polib = import_extra("polib", None, "debian_strings")
    messages = polib.mofile(str(path))
    messages.metadata.setdefault("Language", language)
    texts = [
        (entry.msgid, entry.msgstr, entry.msgid_plural, *entry.msgstr_plural.values())
        for entry in messages
    ]
    messages[:] = [
        entry
        for entry, forms in zip(messages, texts, strict=True)
        if not any(_NOT_IN_XML.search(form or "") for form in forms)
    ]
    return Catalog(package, path.stem, messages)


def fetch_catalogs(packages: list[str], out: Path, language: str = "de") -> Iterator[Catalog]:
    """Download packages into ``out``, and yield their catalogs."""
    for file in download(packages, out / "debs"):
        package = file.name.split("_")[0]
        for path in sorted(unpack_catalogs(file, out / "mo" / package, language)):
            yield read_catalog(package, path, language)


def write_tsv(catalogs: list[Catalog], path: Path, language: str = "de") -> None:
    """Write pairs as lines of four columns, tabs and line breaks in messages as spaces."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, "excel-tab", quoting=csv.QUOTE_NONE, quotechar=None)
        writer.writerow(("package", "domain", "en", language))
        for catalog in catalogs:
            for pair in catalog.pairs():
                texts = (
                    one_line(text, name) for text, name in zip(pair, ("en", language), strict=True)
                )
                writer.writerow((catalog.package, catalog.domain, *texts))


def write_tmx(catalogs: list[Catalog], path: Path, language: str = "de-DE") -> None:
    """Write pairs as units of a translation memory."""
    with path.open("w", encoding="utf-8") as file:
        file.write(_TMX_HEAD)
        for catalog in catalogs:
            for message, translation in catalog.pairs():
                file.write(_UNIT.format(escape(message), language, escape(translation)))
        file.write("</body>\n</tmx>\n")


def main() -> None:
    """Download, unpack and write; print the number of messages of each package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--language", default="de", metavar="CODE")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=PACKAGES)
    asked = parser.parse_args()
    catalogs = list(fetch_catalogs(asked.packages, asked.out, asked.language))
    write_tsv(catalogs, asked.out / "strings.tsv", asked.language)
    write_tmx(
        catalogs, asked.out / "strings.tmx", "de-DE" if asked.language == "de" else asked.language
    )
    shutil.rmtree(asked.out / "po", ignore_errors=True)
    (asked.out / "po").mkdir()
    counts: dict[str, int] = {}
    for catalog in catalogs:
        name = f"{catalog.package}.{catalog.domain}.po"
        catalog.messages.save_as_pofile(str(asked.out / "po" / name))
        pairs = sum(1 for _ in catalog.pairs())
        counts[catalog.package] = counts.get(catalog.package, 0) + pairs
    for package, pairs in counts.items():
        print(f"{pairs:7,}  {package}")
    print(f"{sum(counts.values()):7,}  pairs")


if __name__ == "__main__":
    main()

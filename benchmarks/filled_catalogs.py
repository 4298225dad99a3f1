"""PO files of Debian's source packages, a fifth of their entries emptied and filled by a run.

``python -m benchmarks.filled_catalogs RUN --out DIR`` fetches the packages' sources with apt, on
Debian or Ubuntu, takes po/de.po (or ``--language``) of each, empties entries drawn by a seed, fills
them with ``translate``, and tells of each file

- whether `msgfmt -c` takes it, with the filled entries marked fuzzy and with --no-fuzzy,
- whether all other entries are the same bytes,
- how many of the filled entries have the placeholders of their source,
- chrF of the filled entries, and of the most similar entry's translation in all the files.

The strings are the packages' authors' and translators': do not commit or publish them.
"""

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.base.packages import import_extra
from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import load_translator
from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.documents import command as documents
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS

PACKAGES = re.findall(
    r"\S+",
    "bison cpio dialog diffutils findutils flex gawk grep gzip hello indent libidn2 m4 man-db nano "
    "parted popt psmisc recode sed sharutils wdiff wget xz-utils",
)
_TEXT = r'[ \t]*"(?:[^"\\]|\\.)*"[ \t]*\n(?:[ \t]*"(?:[^"\\]|\\.)*"[ \t]*\n?)*'
_TRANSLATION = re.compile(rf"^(msgstr(?:\[\d\])?){_TEXT}", re.MULTILINE)


class Emptied(NamedTuple):
    """A file with empty entries, by the numbers of their blocks."""

    path: Path
    blocks: list[str]
    empty: set[int]


def fetch(packages: list[str], out: Path, language: str) -> Iterator[Path]:
    """Fetch the sources by an apt of our own, which also knows of sources; yield the PO files."""
    (out / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    known = "\n".join(
        path.read_text() for path in Path("/etc/apt/sources.list.d").glob("*.sources")
    )
    uri, suite = (re.search(rf"^{key}:\s*(\S+)", known, re.M) for key in ("URIs", "Suites"))
    assert uri is not None, "no deb822 sources in /etc/apt/sources.list.d"
    assert suite is not None
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    (out / "apt.list").write_text(f"deb-src {signed} {uri[1]} {suite[1]} main\n")
    options = {"etc::sourcelist": "apt.list", "etc::sourceparts": "-", "state::lists": "lists"}
    apt = ["apt-get", *(f"-oDir::{key}={out.resolve() / value}" for key, value in options.items())]
    subprocess.run([*apt, "update"], check=True, stdout=sys.stderr)
    for package in packages:
        source = [*apt, "source", "--download-only", package]
        if subprocess.run(source, cwd=out, stdout=subprocess.DEVNULL).returncode:
            print(f"{package}: left out, as apt cannot fetch its source", file=sys.stderr)
            continue
        for archive in sorted(out.glob(f"{package}_*.orig.tar.*")):
            if archive.suffix != ".asc":
                take = ["tar", "-xOf", str(archive), "--wildcards", f"*/po/{language}.po"]
                found = subprocess.run(take, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                if found.stdout:
                    path = out / f"{package}.po"
                    path.write_bytes(found.stdout)
                    yield path


def empty_entries(path: Path, polib: Any, share: float, seed: int) -> Emptied:
    """Write a file beside ``path`` in which a share of the translated entries is empty."""
    encoding = polib.detect_encoding(str(path))
    blocks = re.split(r"(?<=\n)\n", path.read_bytes().decode(encoding))
    translated = [
        number
        for number, block in enumerate(blocks)
        if _TRANSLATION.search(block)
        and not re.search(
            r'^#,.*fuzzy|^#~|^msgid ""\nmsgstr|^msgstr(\[0\])? ""\n(?!")', block, re.M
        )
    ]
    empty = set(random.Random(seed).sample(translated, round(share * len(translated))))
    emptied = [
        _TRANSLATION.sub(r'\1 ""\n', block) if number in empty else block
        for number, block in enumerate(blocks)
    ]
    target = path.with_suffix(".empty.po")
    target.write_bytes("\n".join(emptied).encode(encoding))
    return Emptied(target, emptied, empty)


def passes(path: Path) -> bool:
    """Return whether `msgfmt -c` takes a file."""
    check = ["msgfmt", "-c", "-o", "/dev/null", str(path)]
    return not subprocess.run(check, stderr=subprocess.DEVNULL).returncode


def main() -> None:
    """Fetch, empty, fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--language", default="de", metavar="CODE")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--kept", action="store_true", help="take the PO files that are in DIR")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=PACKAGES)
    asked = parser.parse_args()
    polib = import_extra("polib", None, "filled_catalogs")
    fetched = (
        [path for path in sorted(asked.out.glob("*.po")) if path.name.count(".") == 1]
        if asked.kept
        else list(fetch(asked.packages, asked.out, asked.language))
    )
    paths = [path for path in fetched if passes(path)]
    print(f"{len(paths)} of {len(fetched)} files that msgfmt -c takes as they are", file=sys.stderr)
    references = {
        path: {(e.msgctxt, e.msgid): e for e in polib.pofile(str(path))} for path in paths
    }
    print("passes  no-fuzzy  others same  emptied  filled  right placeholders")
    scored: list[tuple[Path, str, str, str]] = []
    totals = [0] * 6
    for path in paths:
        emptied = empty_entries(path, polib, asked.share, 1)
        row, pairs = measure(asked.run, emptied, polib)
        totals = [total + value for total, value in zip(totals, row, strict=True)]
        print("  ".join(f"{int(value):6}" for value in row), f" {path.stem}", flush=True)
        for key, text in pairs:
            scored.append((path, key[1], references[path][key].msgstr, text))
    print("  ".join(f"{value:6}" for value in totals), f" all {len(paths)}")
    print_scores(scored, references)


@cache
def _load(run: Path) -> Any:
    """Load the model once for all files."""
    return load_translator(
        documents.DocumentFormat().prefer_engine(TranslateOptions(run, threads=1))
    )


def measure(run: Path, emptied: Emptied, polib: Any) -> tuple[list[int], list[tuple[Any, str]]]:
    """Fill a file twice; return what is right of it, and the filled entries that have no plural."""
    strict, marked = emptied.path.with_suffix(".strict.po"), emptied.path.with_suffix(".filled.po")
    where = {"run": run, "input_": emptied.path, "output": marked, "threads": 1}
    options = build_options(TranslateOptions, "translate", **where)
    translator = _load(run)
    document = documents.open_document(options)
    found = documents.fill_document(options, document, translator, None)
    for message in found.summary():
        print(f"{emptied.path.name}: {message}", file=sys.stderr)
    changed: dict[str, Any] = {**where, "output": strict, "no_fuzzy": True}
    for each in (options, build_options(TranslateOptions, "translate", **changed)):
        each.output.write_bytes(documents.open_document(each).write(found.fillings))
    encoding = polib.detect_encoding(str(marked))
    blocks = re.split(r"(?<=\n)\n", marked.read_bytes().decode(encoding))
    same = len(blocks) == len(emptied.blocks) and all(
        block == other or number in emptied.empty or _is_open(other)
        for number, (block, other) in enumerate(zip(blocks, emptied.blocks, strict=True))
    )
    wanted = {
        (entry.msgctxt, entry.msgid)
        for number in emptied.empty
        for entry in polib.pofile(_header(encoding) + emptied.blocks[number])
    }
    filled = [
        entry
        for entry in polib.pofile(str(marked))
        if (entry.msgstr or any(entry.msgstr_plural.values()))
        and not entry.obsolete
        and (entry.msgctxt, entry.msgid) in wanted
    ]
    right = sum(
        not any(compare_placeholders(source, text, GROUPS) for source, text in _texts(entry))
        for entry in filled
    )
    pairs = [((e.msgctxt, e.msgid), e.msgstr) for e in filled if e.msgstr]
    return [passes(marked), passes(strict), same, len(wanted), len(filled), right], pairs


def _is_open(block: str) -> bool:
    """Return whether an entry was empty or fuzzy before, and is filled, too."""
    return re.search(r'^#,.*fuzzy|^msgstr(\[0\])? ""\n(?!")', block, re.MULTILINE) is not None


def _header(encoding: str) -> str:
    return f'msgid ""\nmsgstr "Content-Type: text/plain; charset={encoding}\\n"\n\n'


def _texts(entry: Any) -> list[tuple[str, str]]:
    if not entry.msgid_plural:
        return [(entry.msgid, entry.msgstr)]
    return [
        (entry.msgid if form == 0 else entry.msgid_plural, text)
        for form, text in entry.msgstr_plural.items()
    ]


def print_scores(scored: list[tuple[Path, str, str, str]], references: dict[Path, Any]) -> None:
    """Print chrF of the run, and of the most similar entry of all files but the emptied ones."""
    from rapidfuzz import fuzz, process
    from sacrebleu import CHRF

    emptied = {(path, source) for path, source, _, _ in scored}
    memory = {
        entry.msgid: entry.msgstr
        for path, entries in references.items()
        for entry in entries.values()
        if entry.translated() and entry.msgstr and (path, entry.msgid) not in emptied
    }
    sources = list(memory)
    recalled = []
    for _, source, _, _ in scored:
        best = process.extractOne(source, sources, scorer=fuzz.ratio)
        recalled.append(memory[best[0]])
    wanted = [[reference for _, _, reference, _ in scored]]
    ours = CHRF().corpus_score([text for *_, text in scored], wanted)
    print(f"chrF of {len(scored):,} entries: {ours.score:.1f}", end="; ")
    print(f"the most similar of {len(memory):,}: {CHRF().corpus_score(recalled, wanted).score:.1f}")


if __name__ == "__main__":
    main()

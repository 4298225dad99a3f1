"""Fill real documents with stand-in translators and compare their structure with other parsers.

``python -m benchmarks.real_documents DIR --out DIR2`` takes every PO, XLIFF, HTML and Markdown file
below DIR (``--most`` of a format, drawn with a seed), fills it twice, once with its words in
capitals and once with its words reversed, and counts

- crashes: exceptions other than the program's own one-line errors,
- refused: files that the program refuses in one line,
- structure: files that an independent parser reads differently before and after: polib,
  ElementTree, html.parser and markdown-it,
- msgfmt: PO files that `msgfmt -c` accepts before and rejects after, fuzzy entries included,
- silent: texts that are unchanged although nothing reports them.

Files that fail are copied to DIR2 with the result. A translated PO file has a fifth of its entries
emptied first. Do not commit the files: they belong to their authors.
"""

import argparse
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import polib
from markdown_it import MarkdownIt

from benchmarks.filled_catalogs import empty_entries, passes
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.extensions.documents.document import Document
from transformer_cli.extensions.documents.filling import fill
from transformer_cli.extensions.documents.formats import read_document
from transformer_cli.extensions.documents.sentences import LineTranslator
from transformer_cli.inference.translation import Translation

_ENDINGS = {
    "po": (".po",),
    "xliff": (".xlf", ".xliff"),
    "html": (".html", ".htm"),
    "markdown": (".md", ".markdown"),
}
_SENTENCE = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")
"""Lower-case words that a translator into capitals must not leave without a word."""
_TEMPLATE = re.compile(rb"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_FRONT_MATTER = re.compile(rb"\A---\n.*?\n---\n", re.DOTALL)
_KEPT = {"pre", "code", "kbd", "samp", "tt", "var", "script", "style", "textarea", "svg", "math"}
_KEPT |= {"template", "noscript", "object"}
_TRANSLATED_ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "content", "value", "label"}


class Result(NamedTuple):
    """A document that was filled, as it was and as it is."""

    before: bytes
    after: bytes
    reports: list[str]


def shout(line: str) -> Translation:
    """Translate into capitals."""
    words = line.split()
    return _translation(words, [word.upper() for word in words], range(len(words)))


def reverse(line: str) -> Translation:
    """Translate into the words in reverse order."""
    words = line.split()
    return _translation(words, words[::-1], range(len(words) - 1, -1, -1))


def _translation(src: Sequence[str], tgt: Sequence[str], places: Sequence[int]) -> Translation:
    return Translation(
        text=" ".join(tgt),
        log_probability=0.0,
        score=0.0,
        tokens=max(1, len(src)),
        alignment=tuple(zip(range(len(src)), places, strict=True)),
    )


def fill_file(path: Path, target: str, translate: Callable[[str], Translation]) -> Result:
    """Fill a document from English into ``target``."""
    document: Document = read_document(path, ("en", target))
    how = LineTranslator(
        lambda lines, aligned: [
            one if aligned else replace(one, alignment=()) for one in map(translate, lines)
        ],
        "en",
    )
    filled = fill(document, how)
    return Result(path.read_bytes(), document.write(filled.fillings), filled.left)


# --- structure as independent parsers see it ------------------------------------------------------


def po_structure(data: bytes, _: bool) -> object:
    """Return the entries with everything but new translations and the fuzzy flag."""
    catalog = polib.pofile(data.decode(polib_encoding(data)))
    return [
        (
            (entry.msgctxt, entry.msgid, entry.msgid_plural, len(entry.msgstr_plural)),
            (entry.obsolete, entry.occurrences, entry.comment, set(entry.flags) - {"fuzzy"}),
        )
        for entry in catalog
    ]


def polib_encoding(data: bytes) -> str:
    """Return the encoding that a catalog declares."""
    found = re.search(rb"charset=([\w-]+)", data)
    name = found[1].decode() if found else "utf-8"
    return "utf-8" if name == "CHARSET" else name


def xliff_structure(data: bytes, _: bool) -> object:
    """Return all elements outside targets, and whether each target has its source's elements."""
    states = {"state", "subState", "state-qualifier", "approved", "target-language", "trgLang"}

    def describe(element: ElementTree.Element, inside: bool) -> object:
        name = element.tag.rpartition("}")[2]
        if name in ("target", "alt-trans") and not inside:
            return None
        text = (element.text or "").strip(), (element.tail or "").strip()
        kept = sorted((key, value) for key, value in element.items() if key not in states)
        children = [one for child in element if (one := describe(child, inside))]
        return name, kept, text, children

    root = ElementTree.fromstring(data)
    targets: list[bool | None] = []
    for unit in root.iter():
        parts = {child.tag.rpartition("}")[2]: child for child in unit}
        if "source" not in parts:
            continue
        if "target" not in parts or not "".join(parts["target"].itertext()).strip():
            targets.append(None)
        else:
            inline = [
                Counter((e.tag, e.get("id")) for e in parts[name].iter() if e is not parts[name])
                for name in ("source", "target")
            ]
            targets.append(inline[0] == inline[1])
    return describe(root, False), targets


class _Events(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.events: list[tuple[str, ...]] = []
        self.texts: list[tuple[int, str]] = []
        self.kept: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        shown = [
            f"{key}={'' if key in _TRANSLATED_ATTRIBUTES or key.endswith('lang') else value}"
            for key, value in attrs
        ]
        self.events.append(("start", tag, *shown))
        if tag in _KEPT or dict(attrs).get("translate") == "no":
            self.kept.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.events.append(("end", tag))
        if tag in self.kept:
            while self.kept.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.kept:
            self.events.append(("kept", data))
        else:
            self.texts.append((self.getpos()[0], data))

    def handle_comment(self, data: str) -> None:
        self.events.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.events.append(("declaration", decl))


def html_events(data: bytes) -> _Events:
    """Parse a page."""
    found = re.search(rb"charset=[\"']?([\w-]+)", data[:2048])
    parser = _Events()
    try:
        parser.feed(data.decode(found[1].decode() if found else "utf-8"))
    except (UnicodeError, LookupError):
        parser.feed(data.decode("cp1252", "replace"))
    parser.close()
    return parser


def html_structure(data: bytes, in_order: bool) -> object:
    """Return the tags, comments and kept texts."""
    events = html_events(data).events
    return events if in_order else Counter(events)


def _links(token: Any) -> list[object]:
    return [token.attrs.get(key) for key in ("href", "src")]


def markdown_structure(data: bytes, in_order: bool) -> object:
    """Return blocks in order, and the inline elements of each with what is never translated."""
    blocks: list[object] = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(data.decode("utf-8", "replace")):
        if token.type != "inline":
            blocks.append((token.type, token.tag, token.content))
            continue
        inline = Counter(
            (child.type, child.content * (child.type == "code_inline"), *map(str, _links(child)))
            for child in token.children or ()
            if child.type not in ("text", "softbreak", "html_inline", "hardbreak")
        )
        blocks.append(sorted(inline.items()))
    return blocks


STRUCTURES: dict[str, Callable[[bytes, bool], Any]] = {
    "po": po_structure,
    "xliff": xliff_structure,
    "html": html_structure,
    "markdown": markdown_structure,
}


# --- what nothing reports -------------------------------------------------------------------------


def silent(kind: str, result: Result) -> list[str]:
    """Return texts that a translation into capitals has left, and that no report mentions."""
    reported = {int(n) for one in result.reports for n in re.findall(r":(\d+)\b", one)}
    left = {text for _, text in TEXTS[kind](result.after)}

    def is_reported(line: int) -> bool:  # a report names the line where a text begins
        return any(number in reported for number in range(line - 40, line + 2))

    found = [
        (line, text)
        for line, text in TEXTS[kind](result.before)
        if text in left and _SENTENCE.search(text)
    ]
    return [f"{line}: {text.strip()[:100]}" for line, text in found if not is_reported(line)]


def _po_texts(data: bytes) -> list[tuple[int, str]]:
    return [
        (entry.linenum, entry.msgid)
        for entry in polib.pofile(data.decode(polib_encoding(data)))
        if not entry.obsolete and not entry.translated() and not entry.fuzzy
    ]


def _html_texts(data: bytes) -> list[tuple[int, str]]:
    return html_events(_TEMPLATE.sub(_without_text, data)).texts


def _markdown_texts(data: bytes) -> list[tuple[int, str]]:
    text = _TEMPLATE.sub(_without_text, _FRONT_MATTER.sub(_without_text, data))
    return [
        (token.map[0] + 1, child.content)
        for token in MarkdownIt("gfm-like", {"linkify": False}).parse(
            text.decode("utf-8", "replace")
        )
        if token.type == "inline" and token.map
        for child in token.children or ()
        if child.type == "text"
    ]


def _xliff_texts(data: bytes) -> list[tuple[int, str]]:
    texts = []
    for unit in ElementTree.fromstring(data).iter():
        parts = {child.tag.rpartition("}")[2]: child for child in unit}
        if "source" in parts and unit.tag.rpartition("}")[2] != "alt-trans":
            target = parts.get("target")
            if target is None or not "".join(target.itertext()).strip():
                texts.append((0, "".join(parts["source"].itertext())))
    return texts


TEXTS: dict[str, Callable[[bytes], list[tuple[int, str]]]] = {
    "po": _po_texts,
    "xliff": _xliff_texts,
    "html": _html_texts,
    "markdown": _markdown_texts,
}


def _without_text(match: re.Match[bytes]) -> bytes:
    return b"\n" * match[0].count(b"\n")


# --- counting -------------------------------------------------------------------------------------


def find_files(root: Path, kind: str, most: int) -> list[Path]:
    """Return files of a kind, at most ``most``, drawn with a seed."""
    paths = sorted(
        path
        for path in root.rglob("*")
        if path.suffix in _ENDINGS[kind] and path.is_file() and path.stat().st_size < 1_000_000
    )
    return sorted(random.Random(1).sample(paths, min(most, len(paths))))


def target_of(kind: str, path: Path) -> str:
    """Return the language that a document is to be translated into."""
    data = path.read_text("utf-8", "replace")
    keys = {
        "po": r"\nX?\"?Language: (\w+)",
        "xliff": r"(?:trgLang|target-language)\s*=\s*[\"'](\w+)",
    }
    found = re.search(keys[kind], data) if kind in keys else None
    return found[1] if found else "de"


def check(kind: str, path: Path, out: Path, counts: Counter[str]) -> None:
    """Fill one document by both translators, and count what is wrong with the results."""
    counts["files"] += 1
    if kind == "po":
        try:
            path = empty_entries(path, polib, 0.2, 1).path.rename(out / f"{path.stem}.work.po")
        except (OSError, UnicodeError, ValueError):
            counts["unreadable"] += 1
            return
    accepted = kind == "po" and passes(path)
    for name, translate in (("shout", shout), ("reverse", reverse)):
        problems: list[str] = []
        try:
            result = fill_file(path, target_of(kind, path), translate)
        except TransformerCliError as error:
            counts["refused"] += 1
            print(f"refused {path}: {error}", file=sys.stderr)
            return
        except Exception:
            counts["crashes"] += 1
            print(f"crash {path}\n{traceback.format_exc()}", file=sys.stderr)
            return
        counts["filled"] += result.after != result.before
        try:
            before, after = (
                STRUCTURES[kind](data, name == "shout") for data in (result.before, result.after)
            )
        except Exception as error:  # of the other parser, which cannot read the source either
            counts["not compared"] += 1
            print(f"not compared {path}: {error!r}", file=sys.stderr)
            continue
        if kind == "xliff":  # what was no target before must have its source's elements now
            pairs = zip(before[1], after[1], strict=False)
            wrong = any(old is None and new is False for old, new in pairs)
            before, after = before[0], None if wrong else after[0]
        if before != after:
            problems.append("structure")
        copy = out / f"{path.stem}.{len(str(path))}.{name}{path.suffix}"
        copy.write_bytes(result.after)
        if accepted and not passes(copy):
            problems.append("msgfmt")
        if name == "shout" and (texts := silent(kind, result)):
            problems.append("silent")
            print(f"silent {path}: {len(texts)}; first {texts[0]}", file=sys.stderr)
        for problem in problems:
            counts[problem] += 1
            print(f"{problem} {name} {path} {copy}", file=sys.stderr)
        if not problems:
            copy.unlink()


def main() -> None:
    """Count over all formats."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--most", type=int, default=600, help="of each format")
    asked: Any = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    columns = "files filled refused crashes structure msgfmt silent"
    print(
        f"{'format':9}" + "".join(f"{column:>14}" for column in [*columns.split(), "not compared"])
    )
    for kind in _ENDINGS:
        counts: Counter[str] = Counter()
        for path in find_files(asked.root, kind, asked.most):
            check(kind, path, asked.out, counts)
        cells = [counts[column] for column in [*columns.split(), "not compared"]]
        print(f"{kind:9}" + "".join(f"{cell:14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

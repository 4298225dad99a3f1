"""Check that text from strangers takes time that grows linearly with its length.

    python -m benchmarks.hostile
    python -m benchmarks.hostile --short               # in seconds, as .ci/run does
    python -m benchmarks.hostile html .markdown._MARK  # what has these in its name

Thirty shapes of hostile text go through each format of documents, each reader of corpora, and each
function that sees every line. Each regular expression of the package gets them too, and text made
from its own syntax. CPU time is the minimum of three, for a size that takes about 50 ms, twice, and
four times that size; it may grow by at most 2.5 for each doubling.
"""

import argparse
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.hostile_patterns import Shape, attacks, find_patterns
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.registry import entries

MOST_GROWTH = 2.5
"""Times as much for twice the size; a square takes four times as much."""
MOST_SECONDS = 60
"""Of CPU time for one size, which a pattern with exponential time would never reach."""
_FIRST_SIZE = 1 << 8


class Effort(NamedTuple):
    """How thorough a check is."""

    seconds: float  # CPU time that the smallest size takes at least
    step: int  # from one size that may be the smallest to the next
    most: int  # characters: what takes less time for so many is quick enough
    repeats: int
    one_of: int = 1  # with 6, each subject gets a sixth of the shapes


LONG, SHORT = Effort(0.05, 2, 1 << 20, 3), Effort(0.1, 2, 1 << 13, 1, one_of=6)
LONG_FOR_PATTERNS, SHORT_FOR_PATTERNS = Effort(0.05, 2, 1 << 17, 3), Effort(0.02, 2, 1 << 13, 1, 3)

_UNITS = {
    "letters": "a",
    "words": "Ein Hund. ",
    "spaces": " ",
    "lines": "a\n",
    "blank lines": "\n",
    "wrapped lines": "Ein Mann und ein Hund gehen an einem Fluss entlang und sehen\n",
    "digits": "1",
    "separators": "1,.'",
    "tags": "<b>",
    "lines with tags": "<b>x</b>  \n",
    "accelerators": "Aa&b ",
    "opening signs": "<",
    "closing signs": ">",
    "attributes": '<a b="',
    "comments": "<!--",
    "sections": "<![CDATA[",
    "instructions": "<?",
    "references": "&amp;",
    "ampersands": "&#",
    "braces": "{",
    "templates": "{{ a ",
    "brackets": "[",
    "links": "[a](b ",
    "parentheses": "(",
    "stars": "*a ",
    "underscores": "_a",
    "backticks": " ".join("`" * (1 + number % 40) for number in range(40)),
    "quotation marks": "« ",
    "ideographs": "犬。",
    "printf": "%1$",
    "addresses": "http://a@",
}


def _repeated(unit: str) -> Shape:
    return lambda size: unit * (size // len(unit))


SHAPES: dict[str, Shape] = {name: _repeated(unit) for name, unit in _UNITS.items()}


class Subject(NamedTuple):
    """What gets hostile text: ``use`` does all its work with one text."""

    name: str
    use: Callable[[str], object]
    shapes: dict[str, Shape]


class Finding(NamedTuple):
    """A subject and a shape that take too long."""

    subject: str
    shape: str
    problem: str


# --- what gets the text ---------------------------------------------------------------------------

_PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr "{}"\n'
_TMX = (
    '<tmx version="1.4"><body><tu><tuv xml:lang="de"><seg>{}</seg></tuv>'
    '<tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
)
_XLIFF = (
    '<xliff version="1.2"><file source-language="de" target-language="en"><body>'
    '<trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>'
)
_CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
# A format of documents without a frame below gets text alone.
_ENDINGS = [each.facts["endings"] for each in entries("document").values()]
_DOCUMENTS = dict.fromkeys((endings[0][1:] for endings in _ENDINGS if endings), "{}") | {
    "po": _PO.replace('msgstr "{}"', 'msgstr ""'),
    "xlf": _XLIFF,
    "tmx": _TMX.replace("<seg>{}</seg></tuv></tu>", "<seg/></tuv></tu>"),
    "html": "<p>Ein Hund. {}</p>",
    "md": "Ein Hund. {}",
    "srt": _CUE,
    "vtt": f"WEBVTT\n\n{_CUE.replace(',', '.')}",
    "txt": "{}",
}
_READERS = {
    "po": _PO,
    "tmx": _TMX,
    "tsv": "{}\t{}\n",
    "jsonl": '{{"de": "{}", "en": "{}"}}\n',
}


def _framed(frame: str, text: str) -> str:
    """Return a file with text in the place of words, escaped as its format has it."""
    if frame.startswith(("<tmx", "<xliff")):
        text = escape(text)
    elif '"{}"' in frame:
        text = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return frame.replace("{{", "{").replace("}}", "}").replace("{}", text)


def fill_document(path: Path, text: str) -> None:
    """Read a document, fill it by a translator that writes capitals, and write it."""
    from transformer_cli.extensions.documents.filling import fill
    from transformer_cli.extensions.documents.formats import read_document
    from transformer_cli.extensions.documents.sentences import LineTranslator
    from transformer_cli.inference.translation import Translation

    def translate(lines: Sequence[str], _: bool) -> list[Translation]:
        words = (range(len(line.split())) for line in lines)
        links = (tuple(zip(each, each, strict=True)) for each in words)
        return [
            Translation(line.upper(), 0.0, 0, alignment=link)
            for line, link in zip(lines, links, strict=True)
        ]

    path.write_text(text, encoding="utf-8", newline="")
    with suppress(TransformerCliError):
        document = read_document(path, ("de", "en"))
        filled = fill(document, LineTranslator(translate, "de"))
        document.write(filled.fillings)


def read_corpus(path: Path, text: str) -> None:
    """Read all pairs of a file."""
    from transformer_cli.extensions.corpora.opening import open_source
    from transformer_cli.extensions.corpora.settings import SourceConfig

    path.write_text(text, encoding="utf-8", newline="")
    with suppress(TransformerCliError):
        match path.suffix:
            case ".tsv":
                source = SourceConfig(tsv=path, src_column=1, tgt_column=2)
            case ".jsonl":
                source = SourceConfig(jsonl=path, src_field="de", tgt_field="en")
            case ending:
                source = SourceConfig.model_validate({ending[1:]: path})
        for _ in open_source(source, "de", "en").pairs():
            pass


def find_subjects(directory: Path) -> Iterator[Subject]:
    """Yield the formats and readers, each with text alone and with text in its place."""
    uses = {"document": fill_document, "reader": read_corpus}
    for kind, frames in (("document", _DOCUMENTS), ("reader", _READERS)):
        for ending, frame in frames.items():
            use = partial(uses[kind], directory / f"text.{ending}")
            if frame != "{}":
                in_place = {name: _in_frame(frame, shape) for name, shape in SHAPES.items()}
                yield Subject(f"{kind} {ending}, in its place", use, in_place)
            yield Subject(f"{kind} {ending}", use, SHAPES)
    yield from (Subject(f"text {name}", use, SHAPES) for name, use in _line_functions().items())


def _in_frame(frame: str, shape: Shape) -> Shape:
    return lambda size: _framed(frame, shape(size))


def _line_functions() -> dict[str, Callable[[str], object]]:
    """Return what sees every line that is trained on, translated, checked or printed."""
    from transformer_cli.extensions.constraints.terms import TermList, make_term
    from transformer_cli.extensions.documents.document import make_segment
    from transformer_cli.extensions.documents.sentences import cut_sentences
    from transformer_cli.extensions.revision.doubts import DoubtFinder
    from transformer_cli.extensions.stores.addresses import hide_credentials
    from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim

    terms = TermList([make_term("ein Hund", ["a dog"]), make_term("a", ["b"])])
    uses: dict[str, Callable[[str], object]] = {
        "find_verbatim": find_verbatim,
        "TermList.find": terms.find,
        "hide_credentials": hide_credentials,
        "make_segment": lambda text: make_segment(_with_tags(text), "x", str),
    }
    for language in ("en", "zh"):
        uses[f"DoubtFinder.find, {language}"] = partial(DoubtFinder(language).find, "x")
    for language in ("de", "zh", "ja", "am", "xx"):
        uses[f"cut_sentences, {language}"] = partial(cut_sentences, language=language)
    return uses


def _with_tags(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the characters of a text; each that is no letter is a tag."""
    return ((sign, None if sign.isalpha() else "") for sign in text)


def find_pattern_subjects() -> Iterator[Subject]:
    """Yield the patterns, each with the shapes and with text made for it."""
    for own in find_patterns():
        yield Subject(own.place, own.search, SHAPES | attacks(own.pattern))


# --- measuring ------------------------------------------------------------------------------------


def find_growth(subject: Subject, shape: Shape, effort: Effort) -> str | None:
    """Return how time grows too fast with the size of a shape; None: it does not."""
    size = _FIRST_SIZE
    try:
        while _measure(subject, shape, size, 1) < effort.seconds:
            if size >= effort.most:
                return None
            size *= effort.step
        sizes = [size, 2 * size, 4 * size]
        best = [float("inf")] * 3
        for _ in range(20):  # a busy machine disturbs some, and a square is one each time
            times = [_measure(subject, shape, each, effort.repeats) for each in sizes]
            best = list(map(min, best, times))
            if all(later <= MOST_GROWTH * now for now, later in pairwise(best)):
                return None
    except TimeoutError:
        return f"over {MOST_SECONDS} s"
    shown = ", ".join(
        f"{each:,}: {seconds:.3f} s" for each, seconds in zip(sizes, best, strict=True)
    )
    return f"characters and CPU time: {shown}"


def _measure(subject: Subject, shape: Shape, size: int, repeats: int) -> float:
    text = shape(size)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        subject.use(text)
        best = min(best, time.process_time() - start)
    return best


def _stop(*_: object) -> None:
    raise TimeoutError


def check(subject: Subject, shapes: dict[str, Shape], effort: Effort) -> Iterator[Finding]:
    """Yield the shapes that take a subject too long."""
    for name, shape in shapes.items():
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        if problem := find_growth(subject, shape, effort):
            yield Finding(subject.name, name, problem)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> None:
    """Check what the command line names; exit with 1 if anything grows too fast."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="parts of names; without any, everything is checked"
    )
    parser.add_argument("--short", action="store_true", help="small sizes, each once")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _stop)
    start, checked, findings = time.monotonic(), 0, []
    with TemporaryDirectory() as directory:
        efforts = (SHORT, SHORT_FOR_PATTERNS) if options.short else (LONG, LONG_FOR_PATTERNS)
        subjects = [(each, efforts[0]) for each in find_subjects(Path(directory))]
        subjects += [(each, efforts[1]) for each in find_pattern_subjects()]
        gc.freeze()  # or each collection would look at all of the package
        for number, (subject, effort) in enumerate(subjects):
            if options.names and not any(name in subject.name for name in options.names):
                continue
            first = number % effort.one_of
            shapes = dict(list(subject.shapes.items())[first :: effort.one_of])
            for finding in check(subject, shapes, effort):
                findings.append(finding)
                print(*finding, sep=": ", flush=True)
            checked += len(shapes)
    minutes = (time.monotonic() - start) / 60
    print(f"{checked:,} checks of {len(subjects)} subjects in {minutes:.1f} min", file=sys.stderr)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

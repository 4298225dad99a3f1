"""How ``translate`` handles a document: it translates the segments, and keeps everything else."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformer_cli.base.files import sha256
from transformer_cli.base.messages import bar, log
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.base.text_files import compressor, write_text
from transformer_cli.base.writing import claim, whole_file
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import InputFormat, load_translator
from transformer_cli.data.corpus import mtime_key_of
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers, protected_by
from transformer_cli.extensions.documents import formats
from transformer_cli.extensions.documents.document import (
    LOW_CONFIDENCE,
    Document,
    Filling,
    Match,
    Segment,
)
from transformer_cli.extensions.documents.filling import Filled, fill
from transformer_cli.extensions.documents.formats import read_document
from transformer_cli.extensions.documents.memory import Memory
from transformer_cli.extensions.documents.options import DocumentOptions
from transformer_cli.extensions.documents.sentences import LineTranslator
from transformer_cli.extensions.report.examples import mark_differences
from transformer_cli.extensions.report.rendering import render_page
from transformer_cli.extensions.revision.doubts import Doubts
from transformer_cli.extensions.revision.options import RevisionOptions
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher, ignore
from transformer_cli.runs.directory import RunDirectory

with lazy_imports():
    from transformer_cli.extensions.alignments import aligning  # imports torch


class DocumentFormat(InputFormat):
    """The input format for documents: segments are translated, and everything else is kept."""

    def translate(self, given: TranslateOptions) -> None:
        given.check()
        own = given.extra(DocumentOptions)
        with claim(given.output, own.report):
            document = open_document(given)
            memory = read_memory(own, document)
            # Plain text has no tags, so alignments only help its report.
            is_aligned = formats.format_of(given.input_) is not None or own.report is not None
            translator = load_translator(self.prefer_engine(given) if is_aligned else given)
            with bar(None, "translating", " sentences") as shown:

                def add_total(sentences: int) -> None:
                    shown.total = (shown.total or 0) + sentences

                filled = fill_document(
                    given, document, translator, memory, Watcher(shown.update), add_total
                )
            write_document(given, filled)
            if own.report is not None:
                write_report(given, own.report, filled)
        for message in filled.summary():
            log(message)

    def prefer_engine(self, given: TranslateOptions) -> TranslateOptions:
        is_open = given.engine == "auto" and given.precision != "int8"
        if not is_open or RunDirectory(given.run).only_engine:
            return given
        return replace(given, engine="torch")

    def translate_one(
        self,
        given: TranslateOptions,
        translator: TextTranslator[SearchEngine],
        watcher: Watcher,
        check_unchanged: Callable[[], None],
    ) -> tuple[str, int, tuple[str, ...]]:
        document = open_document(given)
        memory = read_memory(given.extra(DocumentOptions), document)
        filled = fill_document(given, document, translator, memory, watcher)
        check_unchanged()
        write_document(given, filled)
        told = tuple(f"{given.input_}: {message}" for message in filled.summary())
        return sha256(given.output), len(filled.fillings), told


def open_document(options: TranslateOptions) -> Document:
    """Read the document that ``-i`` names, to translate it between the languages of the run."""
    run = RunDirectory(options.run)
    engine = run.only_engine
    data = (engine.load().load_settings(run) if engine else run.load_config()).data
    document = read_document(
        options.input_,
        (data.src_lang, data.tgt_lang),
        not options.extra(DocumentOptions).no_fuzzy,
    )
    if document.segments:  # fail before loading the model, which takes long
        import_extra("sentencex", "documents", str(options.input_))
    return document


def read_memory(options: DocumentOptions, document: Document) -> Memory | None:
    """Return the memory from ``--memory``, or None; read it again only if its files changed."""
    if not options.memory:
        return None
    version = mtime_key_of(options.memory) or options.fingerprint()["memory"]
    return Memory.read(tuple(options.memory), *document.languages, version)


def fill_document(
    options: TranslateOptions,
    document: Document,
    translator: TextTranslator[SearchEngine],
    memory: Memory | None,
    watcher: Watcher = NOBODY,
    add_total: Callable[[int], object] = ignore,
) -> Filled:
    """Translate a document's segments; call ``add_total`` with the number of sentences to come."""
    fallback = options.extra(RevisionOptions).fallback
    revisers = (  # never put the source in place of doubtful segments
        replace(each, falls_back=False) if isinstance(each, Doubts) else each
        for each in translator.revisers
    )
    translator = replace(translator, revisers=tuple(revisers))

    def translate(lines: Sequence[str], aligned: bool) -> list[Translation]:
        add_total(len(lines))
        found = []
        chosen = aligning.with_alignments(translator) if aligned else translator
        size = translator.chunk_lines
        for start in range(0, len(lines), size):
            chunk = lines[start : start + size]
            found += chosen.translate_lines(chunk, watcher=watcher)
        return [best for best, *_ in found]

    def find_matches(texts: Sequence[str]) -> list[Match | None]:
        if memory is None:
            return [None] * len(texts)
        shown = bar(len(texts), "searching the memory", " segments", items=texts)
        return [memory.find(text) for text in shown]

    tokenizers = translator.tokenizers
    how = LineTranslator(
        translate,
        translator.config.data.src_lang,
        protected_by(tokenizers),
        translator.engine.name == "torch",
        aligns_all=options.extra(DocumentOptions).report is not None,
        find_matches=find_matches,
        fills_doubtful=fallback is None,
        translates_numbers=tokenizers.letterless,
        # Other extensions may add these.
        estimate=getattr(translator, "estimate", math.exp),
        is_corrected=getattr(translator, "has_correction", lambda text: False),
    )
    filled = fill(document, how)
    filled.is_calibrated = how.estimate is not math.exp
    if isinstance(tokenizers, ReservedTokenizers):
        for segment, filling in filled.pairs():
            tags = ((tag.start, tag.end) for tag in segment.tags)
            terms, lost = tokenizers.find_lost(segment.text, filling.text, tags)
            filled.terms += terms
            filled.lost += [f"{segment.place}: {term.target}" for term in lost]
    return filled


def write_document(options: TranslateOptions, filled: Filled) -> None:
    """Write the document with its translations; the file appears only when it is complete."""
    data = compressor(options.output)(filled.data)
    with whole_file(options.output, is_named=True) as path:
        path.write_bytes(data)


def write_report(options: TranslateOptions, path: Path, filled: Filled) -> None:
    """Write an HTML page with all translated segments, the most doubtful ones first."""
    document = filled.document
    rows = [_row(document.name, segment, one) for segment, one in filled.pairs()]
    rows.sort(key=lambda row: row["filling"].assurance)
    page = render_page(
        "translations",
        None,
        {},
        rows=rows,
        left=filled.left,
        is_calibrated=filled.is_calibrated,
        low_confidence=LOW_CONFIDENCE,
        title=options.input_.name,
        run=str(options.run),
        src_lang=document.languages[0],
        tgt_lang=document.languages[1],
    )
    write_text(path, page, is_named=True)


def _row(name: str, segment: Segment, filling: Filling) -> dict[str, Any]:
    match = filling.match
    return {
        "place": segment.place.removeprefix(f"{name}:"),
        "src": segment.split(segment.text),
        "tgt": segment.split(filling.text),
        "filling": filling,
        "differences": match and mark_differences(segment.text, match.src)[1],
    }

"""What ``translate`` does with a document: its segments translated, all else left as it is."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from transformer_cli.cli.display import bar, log
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import load_translator
from transformer_cli.compression import compressor
from transformer_cli.documents.document import Document, read_document
from transformer_cli.documents.filling import Filled, LineTranslator, fill
from transformer_cli.files import whole_file
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.stream import CHUNK_LINES
from transformer_cli.inference.translator import TextTranslator, Translation
from transformer_cli.ranks import Ranks
from transformer_cli.runs.directory import RunDirectory


def translate_document(options: TranslateOptions) -> None:
    """Check the options, read the document, load the model, translate and write."""
    options.check(Ranks.from_env())
    document = open_document(options)
    translator = load_translator(prefer_alignments(options))
    with bar(None, "translating", " sentences") as shown:
        filled = fill_document(document, translator, shown.update)
    write_document(options, document, filled)
    for message in filled.told():
        log(message)


def prefer_alignments(options: TranslateOptions) -> TranslateOptions:
    """Return the options with torch, which aligns words, unless that is not to be had."""
    is_open = options.engine == "auto" and options.precision != "int8"
    if not is_open or RunDirectory(options.run).is_for_ctranslate2:
        return options
    return replace(options, engine="torch")


def open_document(options: TranslateOptions) -> Document:
    """Read the document that is to be translated by the run."""
    data = RunDirectory(options.run).load_config().data
    return read_document(options.input_, (data.src_lang, data.tgt_lang), not options.no_fuzzy)


def fill_document(
    document: Document,
    translator: TextTranslator[SearchEngine],
    progress: Callable[[int], object],
) -> Filled:
    """Translate a document's segments, some thousand sentences at a time."""

    def translate(lines: Sequence[str], aligned: bool) -> list[Translation]:
        found = []
        for start in range(0, len(lines), CHUNK_LINES):
            chunk = lines[start : start + CHUNK_LINES]
            found += translator.translate_lines(chunk, None, None, aligned, progress)
        return [best for best, *_ in found]

    src_lang, protect = translator.config.data.src_lang, translator.tokenizers.protect
    how = LineTranslator(translate, src_lang, protect, translator.engine.can_align)
    return fill(document, how)


def write_document(options: TranslateOptions, document: Document, filled: Filled) -> None:
    """Write the filled document, which appears as a whole."""
    data = compressor(options.output)(document.write(filled.fillings))
    with whole_file(options.output, is_named=True) as path:
        path.write_bytes(data)

"""Finds a document's format by its filename extension; the manifest lists the formats."""

from pathlib import Path

from transformer_cli.base.errors import InputError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.registry import Entry, entries
from transformer_cli.base.text_files import is_compressed, open_text

with lazy_imports():
    from transformer_cli.extensions.documents import document as documents


def format_of(path: Path) -> Entry | None:
    """Return the format that a filename's extension shows (ignoring .gz etc.), or None."""
    path = path.with_suffix("") if is_compressed(path) else path
    ending, formats = path.suffix.lower(), entries("document").values()
    return next((each for each in formats if ending in each.facts["endings"]), None)


def read_document(
    path: Path, languages: tuple[str, str], marks_fuzzy: bool = True
) -> "documents.Document":
    """Read a document in the format that its filename extension shows, or else as lines of text.

    Raises:
        CorpusError, InputError: the file cannot be read, is damaged, or is in other languages.
    """
    with open_text(path, once=True) as file:
        data = file.read(documents.MAX_BYTES + 1)
    if len(data) > documents.MAX_BYTES:
        raise InputError(
            f"{path}: the document is larger than {documents.MAX_BYTES >> 20} MiB; split it"
        )
    source = documents.Source(str(path), data, languages, marks_fuzzy)
    document: documents.Document = (format_of(path) or entries("document")["lines"]).load()(source)
    document.segments = [segment.without_soft_hyphens() for segment in document.segments]
    return document

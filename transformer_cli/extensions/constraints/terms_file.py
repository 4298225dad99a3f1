"""Read lists of terms from TSV files with the columns source, target and notes."""

from collections.abc import Iterator
from pathlib import Path

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.languages import normalize_language
from transformer_cli.extensions.constraints.terms import TermList, make_term
from transformer_cli.extensions.corpora.tables import tabs_hint
from transformer_cli.text.lines import stream_lines

_MOST_TERMS = 1_000_000
_HEADER = {"source", "src", "target", "tgt"}


def read_terms(path: Path, src_lang: str, tgt_lang: str) -> TermList:
    """Read the terms in a file; lines with the same source make one term.

    Raises:
        CorpusError: the file cannot be read or has no terms, or a term has no words.
    """
    languages = src_lang, tgt_lang
    targets: dict[str, tuple[str, list[str]]] = {}
    for where, source, translations in _read_rows(path, languages):
        targets.setdefault(source, (where, []))[1].extend(translations)
        if len(targets) > _MOST_TERMS:
            raise CorpusError(f"{where}: more than {_MOST_TERMS:,} terms; give fewer")
    terms = []
    for source, (where, translations) in targets.items():
        try:
            terms.append(make_term(source, translations))
        except ValueError as error:
            raise CorpusError(f"{where}: {error}; give a term and its translation") from error
    if not terms:
        raise CorpusError(f"{path}: has no terms; give a term on each line")
    return TermList(terms)


def _read_rows(path: Path, languages: tuple[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the location (file:line), source and translations of each row with a term."""
    names = _HEADER | set(languages)
    for number, line in enumerate(stream_lines(path, once=True), start=1):
        fields = [field.strip() for field in line.split("\t")]
        is_header = number == 1 and {_read_head(field) for field in fields[:2]} <= names
        if is_header or not line.strip() or line.startswith("#"):
            continue
        if len(fields) < 2 or not all(fields[:2]):
            raise CorpusError(
                f"{path}:{number}: expected a term, a tab and its translation, found "
                f"'{line.strip()[:60]}'{tabs_hint(fields)}"
            )
        yield f"{path}:{number}", fields[0], [each.strip() for each in fields[1].split("|")]


def _read_head(field: str) -> str:
    """Normalize a column header for comparison: to lower case, or to a language code."""
    return field.casefold() if field.casefold() in _HEADER else normalize_language(field) or field

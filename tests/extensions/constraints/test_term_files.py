"""Files of terms."""

from pathlib import Path

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.constraints.terms_file import read_terms


def read(path: Path, text: str) -> list[tuple[str, str, int]]:
    """The source, the target and the number of translations of each term."""
    path.write_text(text, encoding="utf-8")
    listed = read_terms(path, "de", "pt-BR" if text.startswith("pt") else "en").terms
    return [(" ".join(term.source), term.target, len(term.accepted)) for term in listed]


@pytest.mark.parametrize(
    "header", ["", "source\ttarget\tnote\n", "\ufeffDE\tEN\n", "pt-br\tDE\n", "# mine\n\n"]
)
def test_rows_are_terms(header: str, tmp_path: Path) -> None:
    rows = "Paket*\tpackage|packages\ta note\nDatei\tfile\n Datei \tdocument\n"
    assert read(tmp_path / "x.tsv", header + rows) == [
        ("paket*", "package", 2),
        ("datei", "file", 2),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "a\tb\nPaket package\n", ":2: expected a term, a tab and its translation, found"),
        ("x.tsv", "a\t\n", ":1: expected a term"),
        (
            "x.csv",
            "dog,koira\n",
            ":1: expected a term, a tab and its translation, found 'dog,koira'; columns are "
            "separated by tabs, so save it as TSV",
        ),
        ("x.tsv", "a\tb\n*\tb\n", ":2: no word"),
        ("x.tsv", "a\tb||c\n", ":1: no word"),
        ("x.tsv", "a*b\tb\n", ":1: 'a*b': '*' must be at the end of a word"),
        ("x.tsv", "# nothing\n", ": has no terms"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError) as raised:
        read(tmp_path / name, text)
    assert str(raised.value).startswith(f"{tmp_path / name}{message}")
    assert "\n" not in str(raised.value)

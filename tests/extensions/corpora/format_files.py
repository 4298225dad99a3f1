"""The same pairs, German and English, as files of each format."""

import json
from pathlib import Path

from transformer_cli.extensions.corpora.opening import SourceReader, open_source
from transformer_cli.extensions.corpora.settings import SourceConfig

PAIRS = [
    (f"Satz {n} – schön, \u201eja\u201c.", f"Sentence {n}: <b>%s</b> {{name}}") for n in range(40)
]
Keys = dict[str, int | str]
FORMATS: dict[str, tuple[str, Keys]] = {
    "text": ("src", {}),
    "tsv": ("tsv", {"src_column": 1, "tgt_column": "en"}),
    "jsonl": ("jsonl", {"src_field": "translation.de", "tgt_field": "translation.en"}),
    "parquet": ("parquet", {"src_field": "translation.de", "tgt_field": "translation.en"}),
    "po": ("po", {}),
    "tmx": ("tmx", {}),
}


def reader(form: str, path: Path, max_bad_units: float = 0.01) -> SourceReader:
    key, keys = FORMATS[form]
    paths = {key: path} | ({"tgt": path} if form == "text" else {})
    return open_source(SourceConfig(**paths, **keys), "de", "en", max_bad_units)  # type: ignore[arg-type]


# --- whole files ----------------------------------------------------------------------------------


def written(form: str, pairs: list[tuple[str, str]] = PAIRS) -> bytes:
    """Return a file of pairs, German and English, in a format."""
    return globals()[f"_{form}"](pairs)  # type: ignore[no-any-return]


def _text(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{src}\n" for src, _ in pairs).encode()


def _tsv(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in [("de", "en"), *pairs]).encode()


def _jsonl(pairs: list[tuple[str, str]]) -> bytes:
    records = ({"id": 1, "translation": {"de": src, "en": tgt}} for src, tgt in pairs)
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def _parquet(pairs: list[tuple[str, str]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    rows = [{"id": 1, "translation": {"de": src, "en": tgt}} for src, tgt in pairs]
    parquet.write_table(pa.Table.from_pylist(rows), sink, row_group_size=1000)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _po(pairs: list[tuple[str, str]]) -> bytes:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'

    header = (
        'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    )
    entries = (f"\n#: x.c\nmsgid {quoted(tgt)}\nmsgstr {quoted(src)}\n" for src, tgt in pairs)
    return (header + "".join(entries)).encode()


def _tmx(pairs: list[tuple[str, str]]) -> bytes:
    from xml.sax.saxutils import escape

    units = (
        f'<tu><tuv xml:lang="de-AT"><seg>{escape(src)}</seg></tuv>'
        f'<tuv xml:lang="EN_us"><seg>{escape(tgt)}</seg></tuv></tu>\n'
        for src, tgt in pairs
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'.encode()

"""How fast corpora of each format are read, and in how much memory.

    python -m benchmarks.readers --pairs 100000 1000000

Writes Multi30k's pairs, numbered, as often as it takes, in each format. Each reading is a pass over
all pairs in a process of its own: by this program, by pandas, and by a script as short as can be.
pandas and polib have to be installed for theirs.
"""

import argparse
import csv
import gzip
import json
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table

DIRECTORY = WORKSHOP / "readers"
PAIRS = (100_000, 1_000_000)
BATCH_ROWS = 10_000
Pairs = Iterator[tuple[str, str]]


# --- files ----------------------------------------------------------------------------------------


def numbered_pairs(number: int) -> Pairs:
    """Yield as many of Multi30k's training pairs, each with a number that makes it unique."""
    from transformer_cli.data.kinds import open_split
    from transformer_cli.extensions.stores.settings import Multi30kData

    train = open_split(Multi30kData(kind="multi30k", src_lang="de", tgt_lang="en"), "train")
    again = (pair for _ in count() for pair in train.pairs())
    for index, (src, tgt) in enumerate(islice(again, number)):
        yield f"{src} {index}".replace("\t", " "), f"{tgt} {index}".replace("\t", " ")


def _write_text(pairs: Pairs, path: Path) -> None:
    with path.open("w") as src_file, path.with_name("text.en").open("w") as tgt_file:
        for src, tgt in pairs:
            src_file.write(f"{src}\n")
            tgt_file.write(f"{tgt}\n")


def _write_tsv(pairs: Pairs, path: Path) -> None:
    with gzip.open(path, "wt", 1) if path.suffix == ".gz" else path.open("w") as file:
        file.write("de\ten\n")
        file.writelines(f"{src}\t{tgt}\n" for src, tgt in pairs)


def _write_jsonl(pairs: Pairs, path: Path) -> None:
    with path.open("w") as file:
        file.writelines(f"{json.dumps({'de': src, 'en': tgt})}\n" for src, tgt in pairs)


def _write_parquet(pairs: Pairs, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([("de", pa.string()), ("en", pa.string())])
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(pairs, BATCH_ROWS)):
            src, tgt = zip(*batch, strict=True)
            # Row groups as large as pyarrow makes them by default.
            writer.write_table(pa.table({"de": src, "en": tgt}), row_group_size=1 << 20)


def _write_po(pairs: Pairs, path: Path) -> None:
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    with path.open("w") as file:
        file.write('msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n')
        file.writelines(f"\nmsgid {quoted(src)}\nmsgstr {quoted(tgt)}\n" for src, tgt in pairs)


def _write_mo(pairs: Pairs, path: Path) -> None:
    sides = [[text.encode() + b"\0" for text in side] for side in zip(*pairs, strict=True)]
    sides[0].insert(0, b"\0")
    sides[1].insert(0, b"Content-Type: text/plain; charset=UTF-8\n\0")
    number = len(sides[0])
    with path.open("wb") as file:
        file.write(struct.pack("<7I", 0x950412DE, 0, number, 28, 28 + 8 * number, 0, 0))
        offset = 28 + 16 * number
        for text in (text for side in sides for text in side):
            file.write(struct.pack("<2I", len(text) - 1, offset))
            offset += len(text)
        for side in sides:
            file.writelines(side)


def _write_tmx(pairs: Pairs, path: Path) -> None:
    with path.open("w") as file:
        file.write('<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="de"/><body>\n')
        file.writelines(
            f'<tu><tuv xml:lang="de"><seg>{escape(src)}</seg></tuv>'
            f'<tuv xml:lang="en"><seg>{escape(tgt)}</seg></tuv></tu>\n'
            for src, tgt in pairs
        )
        file.write("</body></tmx>\n")


FILES: dict[str, tuple[str, Callable[[Pairs, Path], None]]] = {
    "text": ("text.de", _write_text),
    "tsv": ("x.tsv", _write_tsv),
    "tsv.gz": ("x.tsv.gz", _write_tsv),
    "jsonl": ("x.jsonl", _write_jsonl),
    "parquet": ("x.parquet", _write_parquet),
    "po": ("x.po", _write_po),
    "mo": ("x.mo", _write_mo),
    "tmx": ("x.tmx", _write_tmx),
}


def _file(form: str, pairs: int) -> Path:
    """Return a file, written unless it is there."""
    name, write = FILES[form]
    path = DIRECTORY / str(pairs) / name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(numbered_pairs(pairs), path)
    return path


# --- readers --------------------------------------------------------------------------------------


def ours(form: str, path: Path) -> Pairs:
    """Read as the program does."""
    from transformer_cli.extensions.corpora.opening import open_source
    from transformer_cli.extensions.corpora.settings import SourceConfig

    columns = {"src_column": "de", "tgt_column": "en"}
    fields = {"src_field": "de", "tgt_field": "en"}
    keys: Any = {
        "text": {"src": path, "tgt": path.with_name("text.en")},
        "tsv": {"tsv": path, **columns},
        "tsv.gz": {"tsv": path, **columns},
        "jsonl": {"jsonl": path, **fields},
        "parquet": {"parquet": path, **fields},
        "po": {"po": path},
        "mo": {"po": path},
        "tmx": {"tmx": path},
    }[form]
    yield from open_source(
        SourceConfig(**keys), "de", "fr" if form in ("po", "mo") else "en"
    ).pairs()


def by_pandas(form: str, path: Path) -> Pairs:
    """Read by pandas; in chunks, where it can."""
    import pandas as pd

    match form:
        case "tsv" | "tsv.gz":
            frames = pd.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, chunksize=BATCH_ROWS)
        case "jsonl":
            frames = pd.read_json(path, lines=True, chunksize=BATCH_ROWS)
        case _:
            frames = [pd.read_parquet(path)]
    for frame in frames:
        yield from zip(frame["de"], frame["en"], strict=True)


def by_a_script(form: str, path: Path) -> Pairs:
    """Read as one would write it in a minute."""
    match form:
        case "text":
            with path.open() as src_file, path.with_name("text.en").open() as tgt_file:
                for src, tgt in zip(src_file, tgt_file, strict=True):
                    yield src.rstrip("\n"), tgt.rstrip("\n")
        case "tsv" | "tsv.gz":
            with gzip.open(path, "rt") if form == "tsv.gz" else path.open() as file:
                for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                    yield row[0], row[1]
        case "jsonl":
            with path.open() as file:
                for line in file:
                    record = json.loads(line)
                    yield record["de"], record["en"]
        case "parquet":
            from pyarrow import parquet

            yield from (tuple(row.values()) for row in parquet.read_table(path).to_pylist())
        case "po" | "mo":
            import polib

            entries = (polib.pofile if form == "po" else polib.mofile)(str(path))
            yield from ((entry.msgid, entry.msgstr) for entry in entries)
        case "tmx":
            for _, element in ElementTree.iterparse(path):
                if element.tag == "tu":
                    first, second = element.findall("tuv")
                    yield first.findtext("seg", ""), second.findtext("seg", "")
                    element.clear()


READERS = {"this program": ours, "pandas": by_pandas, "a plain script": by_a_script}


def measure(reader: str, form: str, path: Path) -> dict[str, float]:
    """Read a file to its end; return pairs a CPU second, with imports, and the peak in MB."""
    start = time.process_time()
    pairs = sum(1 for _ in READERS[reader](form, path))
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"pairs": pairs, "speed": pairs / seconds, "peak_mb": peak}


def main() -> None:
    """Measure all readers and print a table, or measure one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers", description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=PAIRS, help="pairs of each file")
    parser.add_argument("--formats", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--write", action="store_true", help="only write the files")
    parser.add_argument("--one", nargs=3, metavar=("READER", "FORMAT", "FILE"), help="for itself")
    options = parser.parse_args()
    if options.one:
        reader, form, path = options.one
        print(json.dumps(measure(reader, form, Path(path))))
        return
    files = {form: [_file(form, pairs) for pairs in options.pairs] for form in options.formats}
    if options.write:
        return
    heads = [f"{what}, {pairs:,}" for what in ("pairs/CPU s", "peak MB") for pairs in options.pairs]
    rows = [
        [form, reader, *_row(reader, form, paths)]
        for form, paths in files.items()
        for reader in READERS
        if reader != "pandas" or form in ("tsv", "tsv.gz", "jsonl", "parquet")
    ]
    print(report_head(f"python -m benchmarks.readers --formats {' '.join(options.formats)}"))
    print()
    print(markdown_table(["format", "read by", *heads], rows))


def _row(reader: str, form: str, paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        command = [sys.executable, "-m", "benchmarks.readers", "--one", reader, form, str(path)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout))
        print(reader, path, done.stdout.strip(), file=sys.stderr, flush=True)
    speeds = [f"{each['speed']:,.0f}" for each in found]
    return [*speeds, *(f"{each['peak_mb']:,.0f}" for each in found)]


if __name__ == "__main__":
    main()

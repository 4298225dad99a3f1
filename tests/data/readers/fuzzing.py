"""Damaged and hostile files of each format, read in a process of its own."""

import faulthandler
import gzip
import json
import random
import resource
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from transformer_cli.compression import compressor
from transformer_cli.config.schema import SourceConfig
from transformer_cli.data.readers.opening import open_source
from transformer_cli.errors import CorpusError

PAIRS = [
    (f"Satz {n} – schön, \u201eja\u201c.", f"Sentence {n}: <b>%s</b> {{name}}") for n in range(40)
]
GIB = 1 << 30
Keys = dict[str, int | str]
FORMATS: dict[str, tuple[str, Keys]] = {
    "text": ("src", {}),
    "tsv": ("tsv", {"src_column": 1, "tgt_column": "en"}),
    "jsonl": ("jsonl", {"src_field": "translation.de", "tgt_field": "translation.en"}),
    "parquet": ("parquet", {"src_field": "translation.de", "tgt_field": "translation.en"}),
    "po": ("po", {}),
    "mo": ("po", {}),
    "tmx": ("tmx", {}),
}


def reader(form: str, path: Path):  # type: ignore[no-untyped-def]
    key, keys = FORMATS[form]
    paths = {key: path} | ({"tgt": path} if form == "text" else {})
    return open_source(SourceConfig(**paths, **keys), "de", "en", 0.5)  # type: ignore[arg-type]


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


def _mo(pairs: list[tuple[str, str]]) -> bytes:
    header = "Language: de\nContent-Type: text/plain; charset=UTF-8\n"
    entries = [(b"", header.encode()), *((tgt.encode(), src.encode()) for src, tgt in pairs)]
    count = len(entries)
    tables: list[bytes] = []
    strings = b""
    for side in (0, 1):
        for entry in entries:
            tables.append(struct.pack("<2I", len(entry[side]), 28 + 16 * count + len(strings)))
            strings += entry[side] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0)
    return head + b"".join(tables) + strings


def _tmx(pairs: list[tuple[str, str]]) -> bytes:
    from xml.sax.saxutils import escape

    units = (
        f'<tu><tuv xml:lang="de-AT"><seg>{escape(src)}</seg></tuv>'
        f'<tuv xml:lang="EN_us"><seg>{escape(tgt)}</seg></tuv></tu>\n'
        for src, tgt in pairs
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'.encode()


# --- hostile ones ---------------------------------------------------------------------------------

_TMX_HEAD = b'<tmx version="1.4"><body>'
_ENTITIES = b"".join(
    b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10 if n else b"bomb") for n in range(12)
)
HOSTILE: dict[str, list[bytes]] = {
    "text": [b"", b"\0", b"\xff\xfea\0\n\0", b"\n" * 10_000],
    "tsv": [
        b"de\ten",
        b"\t" * 1_000_000,
        b"de\ten\n" + b"\n" * 1_000_000,
        b"de\ten\n" + b"a\t" * 9,
    ],
    "jsonl": [
        b"[" * 1_000_000,
        b'{"translation":' * 100_000,
        b'{"a": ' + b"9" * 1_000_000 + b"}",
        b'{"a": 1e999999999, "translation": NaN}',
        b'{"translation": {"de": "\\ud800", "en": "a"}}\n' * 9,
        b"[" + b"[]," * 1_000_000 + b"1]",
        b'{"translation": {"de": "' + b"a" * (1 << 21) + b'", "en": "b"}}\n',
        b'{"translation": [1]}\n' * 2000,
    ],
    "parquet": [b"PAR1" * 3, b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1"],
    "po": [
        b'msgid "a"\nmsgstr "' + b"\\" * 100_001 + b'"',
        b'msgid "a"\n' + b'"' + b"a" * 1000 + b'"\n',
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=hex\\n"\n',
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=idna\\n"\n\nmsgid "a"\nmsgstr "b"',
        b'msgid ""\nmsgstr "Language: ' + b"x" * 1_000_000 + b'\\n"\n',
        b'msgid "a"\nmsgid_plural "b"\n' + b"".join(b'msgstr[%d] "c"\n' % n for n in range(999)),
        b'msgid "a"\nmsgstr "b"\n"' + b'c"\n"' * 500_000 + b'"',
    ],
    "mo": [
        b"\xde\x12\x04\x95",
        struct.pack("<7I", 0x950412DE, 0, 0xFFFFFFFF, 28, 28, 0, 0),
        struct.pack("<7I", 0x950412DE, 0, 1000, 28, 28, 0, 0)
        + struct.pack("<2I", 1 << 20, 0) * 1000
        + b"a" * (1 << 20),
    ],
    "tmx": [
        b"<!DOCTYPE tmx [" + _ENTITIES + b"]>" + _TMX_HEAD + b"<tu>&a11;</tu></body></tmx>",
        b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx>&a;</tmx>',
        b'<!DOCTYPE tmx [<!ENTITY % a SYSTEM "http://127.0.0.1:9/"> %a;]><tmx/>',
        b'<!DOCTYPE tmx [<!ATTLIST tu a CDATA "'
        + b"a" * 100_000
        + b'">]><tmx>'
        + b"<tu/>" * 100_000,
        b"<tmx>" + b"<a>" * 1_000_000,
        b"<tmx>" + b"".join(b"<a%d/>" % n for n in range(100_000)),
        b"<tmx><" + b"a" * (1 << 22),
        b"<tmx><tu " + b"".join(b"a%d='' " % n for n in range(100_000)) + b"/></tmx>",
        _TMX_HEAD + b"<tu>" + b'<tuv lang="de"><seg/></tuv><tuv lang="en"><seg/></tuv>' * 10_000,
        _TMX_HEAD + b'<tu><tuv lang="de"><seg>' + b"a" * (1 << 23),
        b"<tmx><!--" + b"-" * (1 << 22),
    ],
}
# What comes after them is repeated until there are gigabytes.
BOMBS: dict[str, bytes] = {
    "text": b"",
    "tsv": b"de\ten\n",
    "jsonl": b'{"translation": {"de": "',
    "po": b'msgid "a"\nmsgstr "',
    "mo": b"\xde\x12\x04\x95",
    "tmx": _TMX_HEAD + b'<tu><tuv lang="de"><seg>',
}
SNIPPETS = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"\\", b"\\u"),
    *(b"<", b"]]>", b"<![CDATA[", b"&#0;", b"&a;", b"<tu>", b"</seg>", b"<!DOCTYPE a [", b"</tmx>"),
    *(b"{", b"[", b"1e9999", b'"\\ud800"', b"msgid", b"msgstr[99]", b"#~", b"#, fuzzy\n"),
    *(b"\xff\xff\xff\x7f", b"\x80" * 9, b"9" * 5000, b"[" * 100_000, b"a" * 70_000, b"<a>" * 200),
]


def bomb(form: str, ending: str, size: int) -> bytes:
    """Return a small file that decompresses to ``size`` bytes without a line end."""
    member = compressor(Path(f"x{ending}"))
    return member(BOMBS[form]) + member(b"a" * (1 << 20)) * (size >> 20)


def damaged(form: str, random_: random.Random) -> tuple[bytes, str]:
    """Return a damaged file and the ending of its name."""
    data = bytearray(written(form))
    ending = random_.choice(["", "", "", ".gz", ".xz", ".zst"]) if form != "parquet" else ""
    if ending and random_.random() < 0.5:
        data = bytearray(compressor(Path(f"x{ending}"))(bytes(data)))
        _mutate(data, random_)
        return bytes(data), ending
    _mutate(data, random_)
    return compressor(Path(f"x{ending}"))(bytes(data)), ending


def _mutate(data: bytearray, random_: random.Random) -> None:
    for _ in range(random_.choice([1, 1, 2, 5, 30])):
        at, end = sorted(random_.randrange(len(data) + 1) for _ in range(2))
        match random_.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << random_.randrange(8)
            case 1:
                data[at:at] = random_.choice(SNIPPETS)
            case 2:
                del data[at : min(end, at + 50)]
            case 3:
                data[at:at] = data[at : min(end, at + 500)] * random_.randrange(1, 9)
            case 4 if random_.random() < 0.2:
                del data[at:]
            case 5 if at < len(data):
                # Lengths and offsets are near the end of a Parquet file, and of an MO at its start.
                near = len(data) - 1 - at % 600 if random_.random() < 0.5 else at % 200
                data[near % len(data)] = random_.randrange(256)


# --- reading --------------------------------------------------------------------------------------


def read(form: str, data: bytes, path: Path) -> str:
    """Read a file to its end; return the error's message, or an empty string."""
    path.write_bytes(data)
    source = reader(form, path)
    try:
        for pair in source.pairs():
            for side in pair:
                assert form == "text" or not set(side) & set("\r\n\t"), side
                side.encode()
        source.source_sha256()
    except CorpusError as error:
        assert "\n" not in str(error), str(error)
        assert len(str(error)) < 1000, str(error)
        assert str(path) in str(error), str(error)
        return str(error)
    finally:
        path.unlink()
    return ""


def main() -> None:
    """Read damaged files: FORMATS COUNT SEED BOMB_BYTES; print outcomes and the growth in KiB."""
    forms, count, seed, bomb_bytes = sys.argv[1].split(","), *map(int, sys.argv[2:])
    faulthandler.dump_traceback_later(1200, exit=True)  # a hang
    with tempfile.TemporaryDirectory() as directory:
        for form in forms:
            read(form, written(form), Path(directory, "warm"))
        before = _peak_kib()
        found = {form: _read_all(form, count, seed, bomb_bytes, Path(directory)) for form in forms}
    print(json.dumps({"errors": found, "grown_kib": _peak_kib() - before}))


def _read_all(form: str, count: int, seed: int, bomb_bytes: int, directory: Path) -> int:
    random_ = random.Random(f"{form} {seed}")
    files: list[tuple[bytes, str]] = [(data, "") for data in HOSTILE[form]]
    files += [(data, ".gz") for data in [gzip.compress(data) for data in HOSTILE[form]]]
    errors = 0
    if form in BOMBS:
        for ending in (".gz", ".xz", ".zst"):
            data = bomb(form, ending, bomb_bytes)
            assert read(form, data, directory / f"bomb{ending}"), "a bomb was read to its end"
    make: Callable[[], tuple[bytes, str]] = lambda: damaged(form, random_)  # noqa: E731
    for data, ending in files:
        errors += bool(read(form, data, directory / f"hostile{ending}"))
    for number in range(count - len(files)):
        data, ending = make()
        try:
            errors += bool(read(form, data, directory / f"{number}{ending}"))
        except BaseException:
            Path(tempfile.gettempdir(), f"fuzzed-{form}-{seed}-{number}{ending}").write_bytes(data)
            raise
    return errors


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()

"""Damaged and hostile files of each format, read in a process of its own."""

import faulthandler
import gzip
import json
import random
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from extensions.corpora.format_files import reader, written
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import compressor

ENDINGS = [".gz", ".xz"] + [".zst"] * (
    find_spec("backports") is not None or sys.version_info > (3, 14)
)


# --- hostile ones ---------------------------------------------------------------------------------

_TMX_HEAD = b'<tmx version="1.4"><body>'
_ENTITIES = b"".join(
    b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10 if n else b"bomb") for n in range(12)
)


HOSTILE: dict[str, list[bytes]] = {
    "text": [b"", b"\0", b"\xff\xfea\0\n\0", b"\n" * 10_000],
    "tsv": [
        b"de\ten",
        b"\t" * 100_000,
        b"de\ten\n" + b"\n" * 100_000,
        b"de\ten\n" + b"a\t" * 9,
    ],
    "jsonl": [
        b"[" * 100_000,
        b'{"translation":' * 100_000,
        b'{"a": ' + b"9" * 1_000_000 + b"}",
        b'{"a": 1e999999999, "translation": NaN}',
        b'{"translation": {"de": "\\ud800", "en": "a"}}\n' * 9,
        b"[" + b"[]," * 300_000 + b"1]",
        b'{"translation": {"de": "' + b"a" * (1 << 21) + b'", "en": "b"}}\n',
        b'{"translation": [1]}\n' * 2000,
    ],
    "parquet": [b"PAR1" * 3, b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1"],
    "po": [
        b'msgid "a"\nmsgstr "' + b"\\" * 100_001 + b'"',
        b'msgid "a"\n' + b'"' + b"a" * 1000 + b'"\n',
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=hex\\n"\n',
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-7\\n"\n\nmsgid "+2AA-"\n',
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=idna\\n"\n\nmsgid "a"\nmsgstr "b"',
        b'msgid ""\nmsgstr "Language: ' + b"x" * 1_000_000 + b'\\n"\n',
        b'msgid "a"\nmsgid_plural "b"\n' + b"".join(b'msgstr[%d] "c"\n' % n for n in range(999)),
        b'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=' + b"(" * 100_000 + b'n;\\n"\n',
        b'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=' + b"9*" * 480 + b'n;\\n"\n',
        b'msgid "a"\nmsgstr "b"\n' + (b'"' + b"c" * 1000 + b'"\n') * 9000,
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=raw_unicode_escape\\n"\n\n'
        b'msgid "a"\nmsgstr "\\ud800"\n',
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


def _repeated_text() -> bytes:
    """Return a Parquet file of some kilobytes that holds the same long text in each of 100 rows."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), ["a" * 900_000])
    sink = pa.BufferOutputStream()
    rows = pa.StructArray.from_arrays([texts, texts], ["de", "en"])
    parquet.write_table(pa.table({"translation": rows}), sink, store_schema=False)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def damaged(form: str, random_: random.Random) -> tuple[bytes, str]:
    """Return a damaged file and the ending of its name."""
    data = bytearray(written(form))
    ending = random_.choice([*[""] * len(ENDINGS), *ENDINGS]) if form != "parquet" else ""
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
                # Lengths and offsets are near the end of a Parquet file.
                near = len(data) - 1 - at % 600 if random_.random() < 0.5 else at % 200
                data[near % len(data)] = random_.randrange(256)


# --- reading --------------------------------------------------------------------------------------


def read(form: str, data: bytes, path: Path) -> str:
    """Read a file to its end; return the error's message, or an empty string."""
    path.write_bytes(data)
    source = reader(form, path, max_bad_units=0.5)
    error = ""
    try:
        for pair in source.pairs():
            for side in pair:
                assert form == "text" or not set(side) & set("\r\n\t"), side
                side.encode()
        source.source_sha256()
    except CorpusError as raised:
        error = str(raised)
    finally:
        path.unlink()
    assert "\n" not in error, error
    assert len(error) < 1000, error
    assert not error or str(path) in error, error
    return error


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
    files = [(data, "") for data in HOSTILE[form]]
    if form == "parquet":
        files.append((_repeated_text(), ""))
    else:
        files += [(gzip.compress(data), ".gz") for data in HOSTILE[form]]
    errors = 0
    if form in BOMBS:
        for ending in ENDINGS:
            data = bomb(form, ending, bomb_bytes)
            assert read(form, data, directory / f"bomb{ending}"), "a bomb was read to its end"
    for data, ending in files:
        errors += bool(read(form, data, directory / f"hostile{ending}"))
    for number in range(count - len(files)):
        data, ending = damaged(form, random_)
        try:
            errors += bool(read(form, data, directory / f"{number}{ending}"))
        except BaseException:
            Path(tempfile.gettempdir(), f"fuzzed-{form}-{seed}-{number}{ending}").write_bytes(data)
            raise
    return errors


def _peak_kib() -> int:
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()

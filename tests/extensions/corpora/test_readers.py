import gzip
import json
import lzma
from collections.abc import Callable
from gettext import GNUTranslations
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from extensions.corpora.format_files import PAIRS, reader, written
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import compressor
from transformer_cli.data.corpus import PairSource, ParallelFiles, StreamedText
from transformer_cli.data.kinds import open_split
from transformer_cli.extensions.corpora.opening import SourceReader, open_source
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.units import (
    InvalidTextError,
    UnitReader,
    one_line,
)
from transformer_cli.extensions.stores.settings import Multi30kData

Pairs = list[tuple[str, str]]
FORMATS = ["tsv", "jsonl", "po", "tmx", "parquet"]


def opened(lang: str = "de", **keys: Any) -> SourceReader:
    return open_source(SourceConfig(**keys), lang, "en")


def error_of(source: PairSource) -> str:
    with pytest.raises(CorpusError) as raised:
        list(source.pairs())
    return str(raised.value)


def saved(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def assert_same_in_each_format(pairs: Pairs, directory: Path) -> None:
    src, tgt = (directory / side for side in ("src", "tgt"))
    saved(src, "".join(f"{line}\n" for line, _ in pairs))
    saved(tgt, "".join(f"{line}\n" for _, line in pairs))
    text_sha256 = StreamedText.of(opened(src=src, tgt=tgt)).stats.text_sha256
    for form in FORMATS:
        data = written(form, pairs)
        sums = set()
        for ending in ("", ".gz", ".xz") if form != "parquet" else ("",):
            path = directory / f"file{ending}"
            path.write_bytes(compressor(path)(data))
            source = reader(form, path)
            assert list(source.pairs()) == pairs, (form, ending)
            assert StreamedText.of(source).stats.text_sha256 == text_sha256
            assert (source.bad.units, source.bad.count) == (len(pairs), 0)
            sums.add(source.source_sha256())
        assert len(sums) == 1, form


def test_the_same_pairs_in_each_format_and_compression(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    quoted = ('  "a\\n" said ""b"" {x}  ', "\u2028\x85 a  b & <c> ]]> 'd' \\")
    assert_same_in_each_format([*PAIRS, quoted], tmp_path)


@pytest.mark.multi30k
@pytest.mark.parametrize("count", [200, pytest.param(29_000, marks=pytest.mark.long)])
def test_multi30k_in_each_format(tmp_path: Path, count: int) -> None:
    pytest.importorskip("pyarrow")
    train = open_split(Multi30kData(kind="multi30k", src_lang="de", tgt_lang="en"), "train")
    pairs = [
        (src.replace("\t", " "), tgt.replace("\t", " "))
        for src, tgt in islice(train.pairs(), count)
    ]
    assert len(pairs) == count
    assert_same_in_each_format(pairs, tmp_path)


def test_line_breaks_and_tabs_become_spaces(tmp_path: Path) -> None:
    record = {"de": "\n a \t\r\n b  c\n", "en": "\t"}
    source = opened(jsonl=saved(tmp_path / "x", json.dumps(record)), src_field="de", tgt_field="en")
    assert list(source.pairs()) == [("a b  c", "")]


# --- damage ---------------------------------------------------------------------------------------


def test_a_few_bad_units_are_counted_and_left_out(tmp_path: Path) -> None:
    lines = [json.dumps({"de": f"{number}", "en": "x"}) for number in range(600)]
    lines[7], lines[8], lines[9], lines[10] = '{"de": "a"}', '{"de": 1, "en": "a"}', "{", "\\ud800"
    lines[10] = '{"de": "\\ud800", "en": ""}'
    path = saved(tmp_path / "x.jsonl", "\n".join(lines))
    source = opened(jsonl=path, src_field="de", tgt_field="en")
    for _ in range(2):
        assert len(list(source.pairs())) == 596
        assert (source.bad.units, source.bad.count) == (600, 4)
    assert source.bad.why == f"{path}:8: no field 'en'; there is 'de'"
    assert isinstance(source, UnitReader)
    assert [str(unit) for unit in source.units(path) if isinstance(unit, CorpusError)][:3] == [
        source.bad.why,
        f"{path}:9: field 'de' is a number, not text",
        f"{path}:10: invalid JSON at column 2 (Expecting property name enclosed in double quotes)",
    ]
    strict = open_source(
        SourceConfig(jsonl=path, src_field="de", tgt_field="en"), "de", "en", 0.001
    )
    assert error_of(strict) == (
        f"{path}:8: no field 'en'; there is 'de'; 4 of 600 units are damaged, 0.67%, but "
        "the limit is 0.10% (kind corpus: data.max_bad_units)"
    )


@pytest.mark.parametrize("line", ["ein Hund,a dog", "ein Hund;a dog"])
def test_commas_under_tsv_get_a_hint_about_tabs(tmp_path: Path, line: str) -> None:
    path = saved(tmp_path / "x.csv", f"{line}\n")
    assert error_of(opened(tsv=path, src_column=1, tgt_column=2)) == (
        f"{path}:1: has no tab; columns are separated by tabs, so save it as TSV"
    )


def test_half_a_file_of_bad_units_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.tsv", "a\tb\na\n" * 5000)
    source = opened(tsv=path, src_column=1, tgt_column=2)
    assert error_of(source).startswith(
        f"{path}:2: 1 column; there is no column 2; 500 of 1,000 units"
    )


def test_a_field_of_another_name_is_an_error_at_once(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", '{"translation": {"de": "a", "english": "b"}}\n' * 5000)
    source = opened(jsonl=path, src_field="translation.de", tgt_field="translation.englisch")
    assert error_of(source) == (
        f"{path}:1: no field 'translation.englisch'; did you mean 'translation.english'?"
    )
    assert source.bad.units == 100


def test_fields_of_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"de": "a", "en": "b", "id": 1}, {"de": None, "en": "c", "id": 2}] + [
        {"de": "d", "en": "e", "id": 3}
    ] * 200
    table = pa.Table.from_pylist(rows)
    table = table.set_column(1, "en", table["en"].dictionary_encode())
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path)
    source = opened(parquet=path, src_field="de", tgt_field="en")
    assert list(source.pairs()) == [("a", "b"), *[("d", "e")] * 200]
    assert source.bad.why == f"{path}: row 2: field 'de' is null, not text"
    for name, message in (
        ("eng", "no field 'eng'; did you mean 'en'?"),
        ("id", "field 'id' has type int64, not text"),
    ):
        assert (
            error_of(opened(parquet=path, src_field="de", tgt_field=name)) == f"{path}: {message}"
        )
    compressed = saved(tmp_path / "x.parquet.gz", "")
    assert "has its own compression" in error_of(
        opened(parquet=compressed, src_field="de", tgt_field="en")
    )


@pytest.mark.parametrize(("form", "data"), [("tsv", b""), ("jsonl", b"\n"), ("po", b"# a\n")])
def test_no_pairs_at_all_are_an_error(tmp_path: Path, form: str, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert error_of(reader(form, path)).startswith(f"{path}: ")


# --- wildcards ------------------------------------------------------------------------------------


def test_wildcards_are_read_in_sorted_order(tmp_path: Path) -> None:
    for name, pairs in (("b[1].tsv", "c\td\n"), ("a[1].tsv", "a\tb\n"), ("c.txt", "")):
        saved(tmp_path / name, pairs)
    source = opened(tsv=tmp_path / "?[1].*", src_column=1, tgt_column=2)
    assert list(source.pairs()) == [("a", "b"), ("c", "d")]
    first = source.source_sha256()
    saved(tmp_path / "b[1].tsv", "c\te\n")
    assert source.source_sha256() != first
    with pytest.raises(CorpusError, match="no file matches; relative paths start from"):
        opened(tsv=tmp_path / "x*", src_column=1, tgt_column=2)


def test_a_directory_is_answered_with_its_files(tmp_path: Path) -> None:
    for form, names in (("po", "{0}/*.po"), ("tmx", "{0}/*.tmx")):
        with pytest.raises(CorpusError) as raised:
            open_source(SourceConfig.model_validate({form: tmp_path}), "de", "en")
        told = f"is a directory; name its files, e.g. {names.format(tmp_path)}"
        assert str(raised.value) == f"{tmp_path}: {told}"


def test_text_files_are_paired_up(tmp_path: Path) -> None:
    for name in ("b.de", "a.de", "a.en", "b.en"):
        saved(tmp_path / name, f"{name}\n")
    source = opened(src=tmp_path / "*.de", tgt=tmp_path / "*.en")
    assert list(source.pairs()) == [("a.de", "a.en"), ("b.de", "b.en")]
    assert isinstance(opened(src=tmp_path / "a.*e", tgt=tmp_path / "a.en"), ParallelFiles)
    saved(tmp_path / "c.de", "x")
    with pytest.raises(
        CorpusError, match=r"matches 3 files, but .* matches 2; files are paired up"
    ):
        opened(src=tmp_path / "*.de", tgt=tmp_path / "?.e*")


def test_files_are_paired_up_by_what_wildcards_stand_for(tmp_path: Path) -> None:
    names = ["news", "news.dev"]
    archive = tmp_path / "a.zip"
    with ZipFile(archive, "w") as packed:
        for name in (f"{name}.{language}" for name in names for language in ("de", "en")):
            packed.writestr(name, f"{name}\n")
            saved(tmp_path / name, f"{name}\n")
    for directory in (tmp_path, archive):
        source = opened(src=directory / "*.de", tgt=directory / "*.en")
        assert sorted(source.pairs()) == [(f"{name}.de", f"{name}.en") for name in names]
    for name in ("de/1", "de/2", "en/a", "en/b"):  # where none are alike, in sorted order
        (tmp_path / name).parent.mkdir(exist_ok=True)
        saved(tmp_path / name, f"{name}\n")
    source = opened(src=tmp_path / "de/*", tgt=tmp_path / "en/*")
    assert list(source.pairs()) == [("de/1", "en/a"), ("de/2", "en/b")]
    (tmp_path / "news.dev.en").rename(tmp_path / "other.en")
    alone = f"^{tmp_path / 'news.dev.de'}: no file of {tmp_path}/[*].en has the same text"
    with pytest.raises(CorpusError, match=alone):
        opened(src=tmp_path / "*.de", tgt=tmp_path / "*.en")


def test_a_side_without_line_ends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a" * (1 << 23)))
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"a\n"))
    source = opened(src=tmp_path / "a.gz", tgt=tmp_path / "b.xz")
    assert error_of(source).startswith(f"{tmp_path / 'a.gz'}:1: the line is longer than 4 MiB")


# --- TMX ------------------------------------------------------------------------------------------

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"><note>x</note></header><body>
<tu><note>not text</note><tuv {lang}="DE-at"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Hund\
<ept i="1">&lt;/b&gt;</ept>
  <ph x="1">%s<sub>!</sub></ph> &#228;</seg></tuv>
<tuv {lang}="en_GB"><seg>A dog</seg></tuv><tuv {lang}="EN"><seg>One dog</seg></tuv></tu>
<tu><tuv {lang}="fr"><seg>Un chien</seg></tuv><tuv {lang}="den"><seg>x</seg></tuv></tu>
{more}</body></tmx>
"""


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
@pytest.mark.parametrize("lang", ["xml:lang", "lang"])
def test_units_of_a_translation_memory(tmp_path: Path, encoding: str, lang: str) -> None:
    path = tmp_path / "x.tmx"
    path.write_bytes(TMX.format(encoding=encoding, lang=lang, more="").encode(encoding))
    src = "Ein <b>Hund</b> %s! ä"
    assert list(opened(tmx=path).pairs()) == [(src, "A dog"), (src, "One dog")]
    assert error_of(opened("it", tmx=path)) == (
        f"{path}: no unit is in both 'it' and 'en'; languages found: 'de', 'en', 'fr', 'den'"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</body>", "</bod>", ":8: invalid XML (mismatched tag)"),
        ("</body></tmx>\n", "", ":8: invalid XML (it ends too early)"),
        ("A dog", "A &dog;", ":6: the file uses its own entity 'dog', which is not"),
        ('SYSTEM "tmx14.dtd"', '[<!ENTITY a "b">]', ":2: the file uses its own entity 'a'"),
        (
            'SYSTEM "tmx14.dtd"',
            '[<!ENTITY a SYSTEM "/etc/passwd">]',
            ":2: the file uses its own entity 'a'",
        ),
        ("UTF-8", "shift_jis", ":1: unknown encoding (multi-byte encodings are not supported)"),
        (' xml:lang="EN"', "", ":4: unit: a tuv without xml:lang"),
        ("tmx version", "xliff version", ":3: not TMX: the outermost element is 'xliff'"),
    ],
)
def test_damaged_translation_memories(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = TMX.format(encoding="UTF-8", lang="xml:lang", more="").replace(old, new)
    path = saved(tmp_path / "x.tmx", text)
    assert error_of(opened(tmx=path)).startswith(f"{path}{message}")


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(InvalidTextError, match=r"^column 1 has half a surrogate pair$"):
        one_line("a\ud800", "column 1")


# --- PO -------------------------------------------------------------------------------------------

PO = r"""# Übersetzer
msgid ""
msgstr ""
"Project-Id-Version: Übersetzt\n"
"Language: {language}\n"
"Content-Type: text/plain; charset={encoding}\n"

#: a.c
#, c-format
msgctxt "menu"
msgid "The \"file\"\n"
"%s\n"
msgstr ""
"Die \"Datei\"\n"
"%s\n"

#, fuzzy
#| msgid "old"
msgid "fuzzy"
msgstr "unscharf"
msgid "{{n}} dog"
msgid_plural "{{n}} dogs"
msgstr[0] "{{n}} Hündin"
msgstr[1] "{{n}} Hunde"
#, fuzzy
#~ msgid "obsolete"
#~ msgstr "veraltet"

msgid "untranslated"
msgstr ""

msgid "C:\\new"
msgstr "C:\\neu"
"""
PO_PAIRS = [
    ('Die "Datei" %s', 'The "file" %s'),
    ("{n} Hündin", "{n} dog"),
    ("{n} Hunde", "{n} dogs"),
    (r"C:\neu", r"C:\new"),
]


@pytest.mark.parametrize("encoding", ["UTF-8", "iso-8859-1"])
@pytest.mark.parametrize("language", ["de_DE", ""])
def test_entries_of_po(tmp_path: Path, encoding: str, language: str) -> None:
    path = tmp_path / "de.po"
    path.write_bytes(PO.format(encoding=encoding, language=language).encode(encoding))
    assert list(opened(po=path).pairs()) == PO_PAIRS
    swapped = open_source(SourceConfig(po=path), "en", "de")
    assert list(swapped.pairs()) == [(tgt, src) for src, tgt in PO_PAIRS]


@pytest.mark.long
def test_a_large_po_file_is_read(tmp_path: Path) -> None:
    entry = '# an entry\n#, c-format\nmsgctxt "{0}"\nmsgid "Open {0}"\nmsgstr "Öffne {0}"\n'
    entries = [entry.format(number) for number in range(60_000)]
    entries[50_000] = entries[50_000].replace("#, c-format", "#, fuzzy")
    path = saved(tmp_path / "x.po", "".join(entries))
    expected = [(f"Open {number}", f"Öffne {number}") for number in range(60_000)]
    del expected[50_000]
    assert list(opened(po=path).pairs()) == [(tgt, src) for src, tgt in expected]
    path = saved(path, "".join([*entries, "x"]))
    assert error_of(opened(po=path)).startswith(f"{path}:{5 * 60_000 + 1}: ")


def test_an_entry_without_end_is_refused(tmp_path: Path) -> None:
    text = b'msgid "a"\nmsgstr ""\n' + (b'"' + b"b" * (1 << 20) + b'"\n') * 40
    for name, data, limit in (
        ("x.po", text, "the header is larger than 32 MiB"),
        (
            "y.po",
            b'msgid ""\nmsgstr ""\n\n' + text,
            "an entry with more than 33,554,432 characters",
        ),
    ):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(data, 1))
        assert error_of(opened(po=path)).endswith(limit)


def test_a_fuzzy_header_counts(tmp_path: Path) -> None:
    text = PO.format(encoding="UTF-8", language="en").replace(
        'msgid ""\n', '#, fuzzy\nmsgid ""\n', 1
    )
    swapped = [(tgt, src) for src, tgt in PO_PAIRS]
    assert list(opened(po=saved(tmp_path / "x.po", text)).pairs()) == swapped


def test_escapes_of_po_are_read(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "x.po",
        r"""msgid "a\vb \x41 \101 \"\\n"
msgstr "b"
""",
    )
    assert list(opened(po=path).pairs()) == [("b", 'a\x0bb A A "\\n')]
    for charset, form in (("ISO-8859-1", r"caf\351"), ("UTF-8", r"caf\303\251")):
        header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n\n'
        path = saved(path, f'{header}msgid "coffee"\nmsgstr "{form}"\n')
        assert list(opened(po=path).pairs()) == [("café", "coffee")]


# The rules of gettext's manual, but for the second of Slovenian, which has another order.
PLURAL_FORMS = {
    "ja": ["nplurals=1; plural=0;"],
    "de": ["nplurals=2; plural=n != 1;", "nplurals=2 ; plural=(n!=1)"],
    "fr": ["nplurals=2; plural=n>1;"],
    "ru": [
        "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || "
        "n%100>=20) ? 1 : 2;",
        "nplurals=4; plural=n==1 ? 3 : n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && "
        "(n%100<10 || n%100>=20) ? 1 : 2;",
    ],
    "sl": [
        "nplurals=4; plural=n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3;",
        "nplurals=4; plural=n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0;",
    ],
    "ar": [
        "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
        "n%100>=11 ? 4 : 5;"
    ],
}


def plural_entry(header: str, count: int) -> str:
    forms = "".join(f'msgstr[{number}] "{number}"\n' for number in range(count))
    return f'msgid ""\nmsgstr "{header}\\n"\n\nmsgid "one"\nmsgid_plural "many"\n{forms}'


@pytest.mark.parametrize(
    ("language", "rule"), [(key, rule) for key, rules in PLURAL_FORMS.items() for rule in rules]
)
def test_plurals_are_paired_as_gettext_chooses_them(
    tmp_path: Path, language: str, rule: str
) -> None:
    polib = pytest.importorskip("polib")
    count = int(rule.split(";")[0].split("=")[1])
    po = saved(tmp_path / "x.po", plural_entry(f"Plural-Forms: {rule}", count))
    polib.pofile(str(po)).save_as_mofile(str(tmp_path / "x.mo"))
    with (tmp_path / "x.mo").open("rb") as file:
        choose = GNUTranslations(file).ngettext
    one = [] if count == 1 else [("one", choose("one", "many", 1))]
    source = open_source(SourceConfig(po=po), "en", language)
    assert list(source.pairs()) == [*one, ("many", choose("one", "many", 15))]


def test_forms_stay_at_their_numbers(tmp_path: Path) -> None:
    rule = f"Plural-Forms: {PLURAL_FORMS['ru'][0]}"
    text = plural_entry(rule, 3).replace('msgstr[1] "1"\n', "")
    source = open_source(SourceConfig(po=saved(tmp_path / "x.po", text)), "en", "ru")
    assert list(source.pairs()) == [("one", "0"), ("many", "2")]


@pytest.mark.parametrize(
    "rule",
    [
        *("", "nplurals=INTEGER; plural=EXPRESSION;", "nplurals=2; plural=n/0;", "nplurals=2"),
        *("nplurals=2; plural=n;", "nplurals=2; plural=0-n;", "nplurals=2; plural=n==;"),
        *(f"nplurals=2; plural={'(' * 50}n{')' * 50};", f"nplurals=2; plural={'!' * 100_000}n;"),
        *(f"nplurals=2; plural={'n*' * 490}n;", "nplurals=2; plural=__import__('os');"),
    ],
)
def test_of_an_unusable_rule_two_forms_are_one_and_many(tmp_path: Path, rule: str) -> None:
    two = saved(tmp_path / "2.po", plural_entry(f"Plural-Forms: {rule}", 2))
    assert list(opened("fr", po=two).pairs()) == [("0", "one"), ("1", "many")]
    three = saved(tmp_path / "3.po", plural_entry(f"Plural-Forms: {rule}", 3))
    assert error_of(opened("fr", po=three)) == (
        f"{three}:4: a plural with 3 forms, but the header has no Plural-Forms that can be used"
    )


def test_a_plural_of_too_few_forms_is_damaged(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.po", plural_entry(f"Plural-Forms: {PLURAL_FORMS['ru'][0]}", 2))
    assert error_of(opened("ru", po=path)) == (
        f"{path}:4: a plural with 2 forms, but the header has Plural-Forms for 3"
    )


@pytest.mark.parametrize("language", ["German", "Deutsch", "Elvish"])
def test_a_language_written_out_tells_nothing(tmp_path: Path, language: str) -> None:
    path = saved(tmp_path / "x.po", PO.format(encoding="UTF-8", language=language))
    assert list(opened(po=path).pairs()) == PO_PAIRS


@pytest.mark.parametrize(
    ("form", "ending", "cut", "problem"),
    [
        ("tmx", "tmx", lambda data: data[:-20], "invalid XML"),
        ("jsonl", "jsonl.gz", lambda data: gzip.compress(data)[:-20], "it ends too early"),
        ("jsonl", "jsonl", lambda data: data + b"x" * (5 << 20), "the line is longer than 4 MiB"),
    ],
)
def test_a_damaged_file_of_many_is_no_damaged_unit(
    tmp_path: Path, form: str, ending: str, cut: Callable[[bytes], bytes], problem: str
) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.{ending}"
        path.write_bytes(compressor(path)(written(form)))
    (tmp_path / f"1.{ending}").write_bytes(cut(written(form)))
    assert problem in error_of(reader(form, tmp_path / f"*.{ending}", 0.5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PO.format(encoding="UTF-8", language="fr"), ": the header says 'Language: fr', which is"),
        *(
            (
                PO.format(encoding=name, language="de"),
                f": the header names the character set '{name}'",
            )
            for name in ("x-y", "utf-7", "idna", "unicode_escape", "raw_unicode_escape")
        ),
        ('msgid "a"\nmsgstr "b"\nnothing\n', ":3: not a line of a PO file"),
        ('msgid "a"\nmsgstr "b"c"\n', ":2: not a line of a PO file"),
        ('msgid "a"\nmsgid "b"\nmsgstr "c"', ":2: a second msgid in one entry"),
        ('msgid "a"\n\n', ":1: an entry without msgid or msgstr"),
    ],
)
def test_damaged_po(tmp_path: Path, text: str, message: str) -> None:
    path = saved(tmp_path / "x.po", text)
    assert error_of(opened(po=path)).startswith(f"{path}{message}")


def test_variants_of_one_language_are_told_apart(tmp_path: Path) -> None:
    tmx, po = tmp_path / "x.tmx", tmp_path / "x.po"
    tmx.write_text(
        '<tmx version="1.4"><header/><body><tu><tuv xml:lang="pt_br"><seg>ônibus</seg></tuv>'
        '<tuv xml:lang="pt-PT"><seg>autocarro</seg></tuv></tu></body></tmx>'
    )
    expected = [("ônibus", "autocarro")]
    assert list(open_source(SourceConfig(tmx=tmx), "pt-BR", "pt-PT").pairs()) == expected
    for language, message, form in (
        ("pt_PT", "ônibus", "autocarro"),
        ("pt_BR", "autocarro", "ônibus"),
    ):
        header = f'msgid ""\nmsgstr "Language: {language}\\n"\n\n'
        po.write_text(f'{header}msgid "{message}"\nmsgstr "{form}"\n')
        assert list(open_source(SourceConfig(po=po), "pt-BR", "pt-PT").pairs()) == expected

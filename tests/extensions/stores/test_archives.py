"""Files in zip archives are read as if they were unpacked, and no archive is trusted."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from web import serve

from extensions.corpora.format_files import FORMATS, PAIRS, reader, written
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.locations import find_files, is_local
from transformer_cli.base.text_files import open_text
from transformer_cli.config.data_schema import FilePair, FilesData
from transformer_cli.data.corpus import ParallelFiles, mtime_key_of
from transformer_cli.data.kinds import open_kind, open_split
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.preparing import prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig
from transformer_cli.extensions.stores import archives


def packed(path: Path, **texts: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return path


def read(path: Path) -> list[bytes]:
    texts = []
    for file in find_files(path):
        with open_text(file) as text:
            texts.append(text.read())
    return texts


def error_of(path: Path) -> str:
    with pytest.raises(CorpusError) as error:
        read(path)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path.parent}/")


# --- as unpacked ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "parquet"])
def test_pairs_are_those_of_a_file(form: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.ZIP", in__text=written(form))
    pairs = reader(form, archive / "in" / "text").pairs()
    assert [pair[0] for pair in pairs] == [pair[0] for pair in PAIRS]


def test_wildcards_match_as_in_files(tmp_path: Path) -> None:
    names = {"a-1_de": b"1", "a-2_de": b"2", "a-1_en": b"3", "_deep__a_de": b"4", "_deep__": b""}
    archive = packed(tmp_path / "a.zip", **names)
    for pattern, found in {"*.de": ["a-1.de", "a-2.de"], ".deep/*": [".deep/a.de"]}.items():
        assert find_files(archive / pattern) == tuple(archive / name for name in found)
    assert read(archive / ".deep" / "a.de") == [b"4"]
    assert error_of(archive / "*.fr").endswith(
        "matches; name a file in it: 'a-1.de', 'a-2.de', 'a-1.en', '.deep/a.de'"
    )


def test_members_are_found_by_their_plain_names(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as writing:
        writing.writestr("./de.txt", b"1")
        writing.writestr("in//en.txt", b"2")
    assert read(archive / "de.txt") == [b"1"]
    assert read(archive / "in" / "en.txt") == [b"2"]
    assert read(archive / "*.txt") == [b"1"]


def test_a_directory_may_be_called_like_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.zip").mkdir()
    (tmp_path / "a.zip" / "x").write_bytes(b"text")
    assert is_local(tmp_path / "a.zip" / "x")
    assert read(tmp_path / "a.zip" / "x") == [b"text"]


def test_another_archive_in_the_same_place_is_seen(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.zip", x=b"old") / "x"
    assert mtime_key_of([path]) is None  # too new
    assert read(path) == [b"old"]
    packed(tmp_path / "b.zip", x=b"newer").replace(tmp_path / "a.zip")
    assert read(path) == [b"newer"]


# --- no archive is trusted ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "..\\x", "C:\\x", "C:x"])
def test_an_archive_that_climbs_out_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good.txt", "text")
        archive.writestr(name, "evil")
    for wanted in ("good.txt", "*"):
        message = error_of(tmp_path / "a.zip" / wanted)
        assert f"a.zip: has a file '{name}', which points outside it" in message


def test_missing_files_are_named(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", deu_txt=b"text", deep__x=b"")
    assert error_of(archive / "deu.tx").endswith("in the archive; did you mean 'deu.txt'?")
    assert error_of(archive / "deep").endswith(
        f"is a directory in the archive; name its files: {archive}/deep/*"
    )
    assert error_of(archive).endswith("is an archive; name a file in it: 'deu.txt', 'deep/x'")
    assert "there is no such file" in error_of(tmp_path / "b.zip" / "x")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:-30], "damaged or incomplete archive"),
        (lambda data: data[:40] + b"\0" * 50 + data[90:], "damaged or incomplete archive"),
        (lambda data: data.replace(b"\x08\x00", b"\x63\x00"), "or of an unknown kind"),
        (lambda _: b"no archive at all", "(File is not a zip file)"),
        (lambda _: b"", "(File is not a zip file)"),
    ],
)
def test_a_damaged_archive_is_an_error(
    tmp_path: Path, change: Callable[[bytes], bytes], problem: str
) -> None:
    archive = packed(tmp_path / "a.zip", x=b"".join(b"%d\n" % n for n in range(1000)))
    archive.write_bytes(change(archive.read_bytes()))
    assert problem in error_of(archive / "x")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_is_called_so_whatever_packed_it(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("x", "".join(map(str, range(1000))))
    data = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(data[:60] + b"\xff" * 50 + data[110:])
    assert "damaged or incomplete archive" in error_of(tmp_path / "a.zip" / "x")


def test_an_archive_of_another_name_is_known(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", x=b"text").rename(tmp_path / "a.de")
    with pytest.raises(CorpusError, match=r"is compressed; give it a name that ends with \.zip"):
        list(ParallelFiles(archive, archive).pairs())


def test_an_encrypted_file_is_an_error(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", x=b"text")
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    archive.write_bytes(data)
    assert "is encrypted; unpack it" in error_of(archive / "x")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"a\n" * (1 << 19)
    archive = packed(tmp_path / "a.zip", **{f"{number}_txt": lines for number in range(3)})
    monkeypatch.setattr(archives, "_ALWAYS_ALLOWED", len(lines))
    assert read(archive / "1.txt") == [lines]
    assert "would unpack from 1 MB to 3 MB, which no text does" in error_of(archive / "*.txt")
    monkeypatch.setattr(archives, "_ALWAYS_ALLOWED", len(lines) - 1)
    assert "would unpack from 1 MB to 1 MB, which no text does" in error_of(archive / "1.txt")


def test_a_file_that_unpacks_to_more_than_declared_is_cut_off(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", x=b"a\n" * 100_000)
    data = bytearray(archive.read_bytes())
    for place in (22, data.index(b"PK\1\2") + 24):
        data[place : place + 4] = (1000).to_bytes(4, "little")
    archive.write_bytes(data)
    assert "(Bad CRC-32 for file 'x')" in error_of(archive / "x")


# --- of the web -----------------------------------------------------------------------------------


def zipped() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for side, language in enumerate(("de", "en")):
            archive.writestr(f"x.{language}", "".join(f"{pair[side]}\n" for pair in PAIRS))
    return data.getvalue()


def test_a_corpus_of_the_web_is_that_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve() as web:
        web.bodies["x.zip"] = zipped()
        sides = {"src": f"{web.url}x.zip/*.de", "tgt": f"{web.url}x.zip/x.en"}
        settings = {"src_lang": "de", "tgt_lang": "en"}
        files = FilesData.model_validate(
            settings | {"kind": "files", "train": sides, "val": sides, "test": {"news": sides}}
        )
        assert not open_kind(files).is_here("news", None)
        assert list(open_split(files, "train").pairs()) == PAIRS
        assert open_kind(files).is_here("news", None)
        corpus = settings | {"kind": "corpus", "sources": [sides], "val": sides}
        record = prepare_corpus(CorpusData.model_validate(corpus), tmp_path / "corpus")
        assert web.requests == ["x.zip"]
    assert record.sources[0].pairs == len(PAIRS)
    assert (tmp_path / "corpus" / "train.src").read_text().splitlines()[0] == PAIRS[0][0]


def test_two_files_have_two_sums() -> None:
    sides = {"src": "https://h/x.de.gz", "tgt": "https://h/x.en.gz"}
    first, second = "1" * 64, "2" * 64
    pair = FilePair.model_validate({**sides, "sha256": [first, second]})
    shouted = FilePair.model_validate({**sides, "sha256": ["A" * 64, "B" * 64]})
    assert shouted.sums == ("a" * 64, "b" * 64)  # as PowerShell writes them
    assert pair.sums == (first, second)
    assert FilePair.model_validate_json(pair.model_dump_json()) == pair
    assert SourceConfig.model_validate({"tmx": "https://h/x.tmx", "sha256": first}).sums[0] == first
    for wrong in (first, [first] * 3, "x", 5, [], [first, 5]):
        with pytest.raises(ValueError, match="sha256"):
            FilePair.model_validate({**sides, "sha256": wrong})
    with pytest.raises(ValueError, match="given for 0 fetched files"):
        FilePair.model_validate({"src": "a", "tgt": "b", "sha256": first})


def test_the_web_has_no_wildcards() -> None:
    source = SourceConfig.model_validate({"tmx": "https://h/x-*.tmx"})
    with pytest.raises(CorpusError, match="wildcards for files in a zip archive only"):
        open_source(source, "de", "en")

"""Objects in a store read like files, and no name leads outside."""

import pickle
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from extensions.corpora.format_files import FORMATS, PAIRS, reader, written
from transformer_cli.base.errors import (
    CorpusError,
    MissingExtraError,
    TransformerCliError,
    UsageError,
)
from transformer_cli.base.locations import UrlPath, find_files, text_path
from transformer_cli.base.text_files import compressor, open_text
from transformer_cli.config.data_schema import FilePair
from transformer_cli.data.corpus import ParallelFiles, mtime_key_of
from transformer_cli.extensions.corpora.preparing import is_prepared, prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.stores import objects

fsspec = pytest.importorskip("fsspec")
memory = pytest.importorskip("fsspec.implementations.memory")
registry = import_module("fsspec.registry")


@pytest.fixture
def store() -> Iterator[Any]:
    """Yield an empty store in memory."""
    memory.MemoryFileSystem.store.clear()
    memory.MemoryFileSystem.pseudo_dirs[:] = [""]
    yield fsspec.filesystem("memory")
    memory.MemoryFileSystem.store.clear()


def put(store: Any, url: str, data: bytes) -> Path:
    store.pipe(url, compressor(Path(url))(data))
    return text_path(url)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["s3://b/k/x.txt.zst", "hf://datasets/o/r@main/a [b].tsv"])
def test_a_url_stays_unchanged(url: str) -> None:
    path = text_path(url)
    assert str(path) == path.as_posix() == str(path.absolute()) == url
    assert str(pickle.loads(pickle.dumps(path))) == url
    assert str(path.parent / path.name) == str(path.with_name(path.name)) == url
    pair = FilePair.model_validate({"src": url, "tgt": "local.en"})
    assert pair.src == path
    assert FilePair.model_validate_json(pair.model_dump_json()) == pair
    assert pair.tgt == Path.cwd() / "local.en"


@pytest.mark.parametrize(
    "name",
    [
        *("12:30@home.txt", "./12:30@home.txt", "/srv/mail:anna@x/a.de", "a?b=c", "https:/h/x"),
        "/run/user/1000/gvfs/sftp:host=h,user=me@corp/x.txt",
    ],
)
def test_a_name_of_a_file_may_look_like_a_login(name: str) -> None:
    assert text_path(name) == Path(name)
    assert not isinstance(text_path(name), UrlPath)


@pytest.mark.posix
def test_a_file_that_exists_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="has a login or a query"):
        text_path("https:/me@h")
    Path("https:").mkdir()
    Path("https:/me@h").touch()
    assert text_path("https:/me@h") == Path("https:/me@h")


def test_options_that_need_a_file_say_so(tmp_path: Path) -> None:
    path = text_path("s3://b/x")
    for use in (path.exists, path.is_file, path.stat, path.read_bytes, path.unlink):
        with pytest.raises(UsageError, match="s3://b/x: is an object in a store"):
            use()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("simplecache::s3://b/x", "not a plain URL"),
        ("zip://inner.txt::s3://b/x.zip", "not a plain URL"),
        ("file:///etc/passwd", "give only its path"),
        ("s3://b/../x", "empty, . or .."),
        ("s3://b//x", "empty, . or .."),
        ("s3://b/" + "x" * 3000, "too long"),
        ("s3://key:secret@b/x", "has a password or a key"),
        ("https://h/x?Signature=secret", "has a login or a query"),
        ("https://secret@h/x", "has a login or a query"),
        ("https//a:secret@h/x", "has a login or a query"),
        ("htps:/h/x?secret", "has a login or a query"),
    ],
)
def test_other_urls_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as error:
        text_path(url)
    assert "secret" not in str(error.value)


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_pairs_are_those_of_a_file(form: str, store: Any) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    for ending in [""] if form == "parquet" else ["", ".gz", ".xz"]:
        path = put(store, f"memory://bucket/text{ending}", written(form))
        read = reader(form, path)
        assert [pair[0] for pair in read.pairs()] == [pair[0] for pair in PAIRS]


def test_a_store_that_sends_too_slowly_is_an_error(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = UrlPath("memory://bucket/text")
    put(store, str(path), b"x\n")
    monkeypatch.setattr(objects, "_MOST_SECONDS", 0.1)
    file: Any
    with objects.OBJECTS.open(path) as file:
        waiting = Event()
        monkeypatch.setattr(file.raw._file, "read", lambda _: waiting.wait() and b"")
        with pytest.raises(CorpusError, match=r"bucket/text: cannot be read \(the server is too"):
            file.read()
        waiting.set()


@pytest.mark.parametrize("method", ["info", "ls", "glob"])
def test_a_store_that_does_not_answer_is_an_error(
    method: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = UrlPath("memory://bucket/text")
    waiting = Event()
    monkeypatch.setattr(objects, "_MOST_SECONDS", 0.1)
    monkeypatch.setattr(type(store), method, lambda *_, **__: waiting.wait(60))
    ask: dict[str, Callable[[], object]] = {
        "info": lambda: objects.OBJECTS.versions([path]),
        "ls": lambda: objects.OBJECTS.versions([path.with_name(str(each)) for each in range(20)]),
        "glob": lambda: objects.OBJECTS.find(path.with_name("*")),
    }
    with pytest.raises(CorpusError, match=r"bucket/.*: cannot be read \(the server is too slow"):
        ask[method]()
    waiting.set()


def test_wildcards_match_as_in_files(store: Any, tmp_path: Path) -> None:
    names = ["a-1.txt", "a-2.txt", "a-10.txt", "b-1.txt", "deep/a-3.txt", "a-[1].txt", "{a}-1.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
        put(store, f"memory://bucket/in/{name}", b"x\n")
    for pattern in ("a-*.txt", "a-?.txt", "**.txt", "a-[1]*", "{a}*", "*/a-3.txt", "*"):
        files = find_files(tmp_path / pattern)
        objects = find_files(text_path(f"memory://bucket/in/{pattern}"))
        below = [file.relative_to(tmp_path).as_posix() for file in files]
        assert [str(each) for each in objects] == [f"memory://bucket/in/{name}" for name in below]
    with pytest.raises(CorpusError, match=r"memory://bucket/out/\*: no object matches"):
        find_files(text_path("memory://bucket/out/*"))


def test_names_of_a_listing_lead_nowhere_else(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*names: str) -> list[str]:
        listing = {name: {"name": name, "type": "file"} for name in names}
        monkeypatch.setattr(type(store), "glob", lambda *_, **__: listing)
        return list(map(str, find_files(text_path("memory://bucket/in/*"))))

    others = ["/bucket/out/x", "/other/in/x", "/bucket/in/deep/x", "https://elsewhere/in/x"]
    assert find("/bucket/in/x", *others) == ["memory://bucket/in/x"]
    with pytest.raises(CorpusError, match="an object with an unusable name"):
        find("/bucket/in/x", "/bucket/in/..")
    monkeypatch.setattr("transformer_cli.extensions.stores.objects._MAX_OBJECTS", 2)
    with pytest.raises(CorpusError, match="3 objects match, more than 2"):
        find(*(f"/bucket/in/{number}" for number in range(3)))


def corpus() -> CorpusData:
    source = {"src": "memory://bucket/*.de.gz", "tgt": "memory://bucket/*.en.gz"}
    settings = {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": [source]}
    return CorpusData.model_validate(settings | {"split": {"val": 5}})


def test_a_changed_object_is_known_without_reading_it(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(2):
        for side in (0, 1):
            lines = "".join(f"{pair[side]} {part}\n" for pair in PAIRS)
            put(store, f"memory://bucket/{part}.{('de', 'en')[side]}.gz", lines.encode())
    prepare_corpus(corpus(), tmp_path / "corpus")
    with monkeypatch.context() as unread:
        unread.setattr(type(store), "open", None)
        assert is_prepared(corpus(), tmp_path / "corpus")
    store.pipe("memory://bucket/1.en.gz", store.cat("memory://bucket/0.en.gz"))
    assert not is_prepared(corpus(), tmp_path / "corpus")
    store.rm("memory://bucket/1.en.gz")
    assert mtime_key_of([text_path("memory://bucket/1.en.gz")]) is None
    with pytest.raises(CorpusError, match=r"1.de.gz: no file of .* has the same text in place of"):
        is_prepared(corpus(), tmp_path / "corpus")


# --- failures -------------------------------------------------------------------------------------


def error_of(url: str) -> str:
    with pytest.raises(TransformerCliError) as raised:
        list(ParallelFiles(text_path(url), text_path(url)).pairs())
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_unreadable_objects_are_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of("memory://bucket/x").startswith("memory://bucket/x: there is no such object")
    assert error_of("nostore://b/x").startswith("nostore://b/x: cannot be read (Protocol not known")
    put(store, "memory://bucket/x", b"line\n" * 100_000)
    read, calls = memory.MemoryFile.read, iter(range(10))

    def cut_off(file: Any, size: int = -1) -> bytes:
        if next(calls) > 2:
            raise RuntimeError("the network\nis gone")
        return read(file, size)  # type: ignore[no-any-return]

    monkeypatch.setattr(memory.MemoryFile, "read", cut_off)
    assert error_of("memory://bucket/x").startswith(
        "memory://bucket/x: cannot be read (the network is gone); check the URL"
    )


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"class": "nowhere_to_be_found.Store", "err": "Install it"}
    monkeypatch.setitem(registry.known_implementations, "lacking", lacking)
    with pytest.raises(MissingExtraError, match="pip install nowhere_to_be_found") as error:
        open_text(text_path("lacking://b/x"))
    assert str(error.value).startswith("lacking://b/x: needs the package nowhere_to_be_found")

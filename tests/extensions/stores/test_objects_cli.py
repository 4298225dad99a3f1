"""Objects of a store that translate reads and writes, and an S3 on the loopback for all of it."""

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run, signal_at

from transformer_cli.base.errors import CorpusError, OutputError, UsageError
from transformer_cli.base.locations import UrlPath, text_path
from transformer_cli.base.text_files import compressor
from transformer_cli.base.writing import whole_file
from transformer_cli.data.corpus import ParallelFiles, mtime_key_of
from transformer_cli.extensions.corpora.preparing import is_prepared, prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.many_files.output_directory import (
    RECORD,
    FileState,
    check_directory,
    file_key,
    find_inputs,
    open_directory,
)
from transformer_cli.extensions.stores.objects import OBJECTS

fsspec = pytest.importorskip("fsspec")
TEXTS = {"a.txt": "1 2 3 4\n\n4 3 2\n", "b.txt": "", "c.txt": "2 2\n3 4 5 6\n1\n"}


@pytest.fixture
def memory() -> Iterator[Any]:
    """Yield a store in memory, empty."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


# --- in memory ------------------------------------------------------------------------------------


def put_into_memory(data: bytes) -> None:
    fsspec.filesystem("memory").pipe("memory://bucket/in.txt.gz", data)


def test_an_object_is_translated_as_a_file(training: Training, tmp_path: Path) -> None:
    data = compressor(Path("in.txt.gz"))(TEXTS["a.txt"].encode())
    (tmp_path / "in.txt.gz").write_bytes(data)
    before = partial(put_into_memory, data)
    of_file = run("translate", training.run, "-i", "in.txt.gz", cwd=tmp_path)
    of_object = run("translate", training.run, "-i", "memory://bucket/in.txt.gz", before=before)
    assert (of_object.code, of_object.out, of_object.err) == (0, of_file.out, of_file.err)
    assert of_object.out.count("\n") == 3
    refused = run("translate", training.run, "-o", "s3://key:secret@bucket/out.txt")
    assert_refused(refused, 2, "has a password or a key")
    assert "secret" not in refused.err


def put_subtitles_into_memory() -> None:
    text = b"1\n00:00:01,000 --> 00:00:02,000\n1 2\n"
    fsspec.filesystem("memory").pipe("memory://bucket/x.srt", text)


def test_a_document_takes_its_own_place_in_a_store(training: Training) -> None:
    path = "memory://bucket/x.srt"
    done = run("translate", training.run, "-i", path, "-o", path, before=put_subtitles_into_memory)
    assert done.code == 0, done.err


def save_object_meanwhile(path: str, data: bytes) -> None:
    """Have someone else write an object, right before it is uploaded."""
    from transformer_cli.extensions.stores import objects

    check, store = vars(objects)["check_claim"], fsspec.filesystem("memory")
    put_subtitles_into_memory()
    store.pipe("memory://bucket/out.txt", b"older\n")

    def save(claimed: Path) -> None:
        store.pipe(path, data)
        try:
            check(claimed)
        finally:
            sys.stderr.write(f"{store.cat(path)!r}\n")

    vars(objects)["check_claim"] = save


@pytest.mark.parametrize("case", [("x.srt", "x.srt"), ("x.srt", "y.srt"), ("-", "out.txt")])
def test_an_object_that_someone_saves_meanwhile_is_kept(
    training: Training, case: tuple[str, str]
) -> None:
    given, path = ("-" if name == "-" else f"memory://bucket/{name}" for name in case)
    before = partial(save_object_meanwhile, path, b"saved\n")
    finished = run("translate", training.run, "-i", given, "-o", path, stdin=b"1\n", before=before)
    assert finished.code == 1
    assert "b'saved\\n'\n" in finished.err
    assert f"{path}: was changed by someone else while this command ran" in finished.err
    (kept,) = re.findall("kept in (.*)", finished.err)
    assert Path(kept).stat().st_size
    shutil.rmtree(Path(kept).parent)


def test_a_store_has_a_record_as_a_directory_has(memory: Any) -> None:
    for name, text in TEXTS.items():
        memory.pipe(f"memory://bucket/in/{name}", text.encode())
    memory.pipe("memory://bucket/in/.hidden", b"")
    inputs = find_inputs(text_path("memory://bucket/in/*"))
    assert [path.name for path in inputs] == list(TEXTS)
    with pytest.raises(UsageError, match="the directory of the files that -i reads"):
        check_directory(text_path("memory://bucket/in/"), inputs)
    with pytest.raises(UsageError, match=r"-i memory://bucket/out/\*: no file matches"):
        find_inputs(text_path("memory://bucket/out/*"))
    output = text_path("memory://bucket/out/")
    check_directory(output, inputs)
    state = FileState(input_key="1", input_sha256="2", output_key="3", output_sha256="4")
    with open_directory(output, {"beam": "1"}) as directory:
        assert directory.state("a.txt") is None
        directory.note("a.txt", state)
    memory.pipe("memory://bucket/out/a.txt", b"")
    check_directory(output, inputs)
    with open_directory(output, {"beam": "1"}) as directory:
        assert directory.state("a.txt") == state
    with (
        pytest.raises(UsageError, match="have beam 1, not 2"),
        open_directory(output, {"beam": "2"}),
    ):
        pass
    memory.rm(f"memory://bucket/out/{RECORD}")
    with pytest.raises(UsageError, match=r"a\.txt is there, and no record"):
        check_directory(output, inputs)


def test_of_many_translations_the_store_is_asked_by_listings(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        (text_path(f"memory://bucket/in/{number}"), text_path(f"memory://bucket/out/{number}"))
        for number in range(30)
    ]
    for path in chain(*files):
        memory.pipe(str(path), b"")
    requests = count_requests(memory, monkeypatch)
    with open_directory(text_path("memory://bucket/out/"), {"beam": "1"}) as directory:
        for input_, output in files[1:]:
            key, output_key = mtime_key_of([input_]), file_key(output)
            state = FileState(
                input_key=key, input_sha256="2", output_key=output_key, output_sha256="4"
            )
            directory.note(output.name, state)
        memory.pipe("memory://bucket/in/2", b"changed")
        memory.rm("memory://bucket/out/3")
        requests.clear()
        whole = directory.find_whole(files)
        # Also the one that is gone is asked for alone.
        assert requests == {"ls": 2, "info": 1}
    assert whole == {output for _, output in [files[1], *files[4:]]}


def count_requests(store: Any, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is asked of a store in memory, whose objects now have an ETag as S3's have."""
    requests: Counter[str] = Counter()
    info, ls = type(store).info, type(store).ls

    def tag(found: dict[str, Any]) -> dict[str, Any]:
        entry = store.store.get(found["name"])
        return {**found, "ETag": entry and entry.created.isoformat()}

    def counting_info(self: Any, path: str, **_: object) -> dict[str, Any]:
        requests["info"] += 1
        return tag(info(self, path))

    def counting_ls(self: Any, path: str, **_: object) -> list[dict[str, Any]]:
        requests["ls"] += 1
        return [tag(found) for found in ls(self, path, detail=True)]

    monkeypatch.setattr(type(store), "info", counting_info)
    monkeypatch.setattr(type(store), "ls", counting_ls)
    return requests


def test_what_cannot_be_uploaded_is_kept(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(memory), "put_file", refuse)
    path = text_path("memory://bucket/out")
    with pytest.raises(OutputError, match="cannot be written") as error, whole_file(path) as file:
        file.write_text("hours of work\n")
    assert str(error.value).startswith("memory://bucket/out: cannot be written (Access Denied)")
    assert str(error.value).endswith(f"kept in {file}")
    assert file.read_text() == "hours of work\n"
    file.unlink()
    file.parent.rmdir()


# --- in an S3 on the loopback ---------------------------------------------------------------------


def use_s3(address: str) -> None:
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def use_s3_until_killed(address: str, upload: int) -> None:
    use_s3(address)
    signal_at("s3fs.core", "calculate_chunksize", upload)  # in each upload


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 with an empty bucket, which this process uses too."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")  # so that they are as before afterwards
    monkeypatch.setenv("AWS_DEFAULT_REGION", "")
    use_s3(address)
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    store = fsspec.filesystem("s3")
    if store.exists("bucket"):
        store.rm("bucket", recursive=True)
    store.mkdir("bucket")
    return store


def corpus(where: str) -> CorpusData:
    source = {"src": f"{where}/*.de.zst", "tgt": f"{where}/*.en.zst"}
    settings = {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": [source]}
    return CorpusData.model_validate(settings | {"split": {"val": 5}})


@pytest.mark.long
def test_a_corpus_of_objects_is_prepared_as_one_of_files(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(3):
        for side in ("de", "en"):
            path = tmp_path / f"{part}.{side}.zst"
            text = "".join(f"{side} {part} {number}\n" for number in range(50))
            path.write_bytes(compressor(path)(text.encode()))
            s3.put_file(str(path), f"bucket/{path.name}")
    for name, where in (("files", str(tmp_path)), ("objects", "s3://bucket")):
        prepare_corpus(corpus(where), tmp_path / name)
    for file in ("train.src", "train.tgt", "val.src", "val.tgt"):
        assert (tmp_path / "objects" / file).read_bytes() == (
            tmp_path / "files" / file
        ).read_bytes()
    with monkeypatch.context() as unread:
        unread.setattr(type(s3), "open", None)
        assert is_prepared(corpus("s3://bucket"), tmp_path / "objects")
    s3.put_file(str(tmp_path / "0.en.zst"), "bucket/2.en.zst")
    assert not is_prepared(corpus("s3://bucket"), tmp_path / "objects")


@pytest.mark.long
def test_a_listing_says_of_objects_what_they_say_themselves(s3: Any) -> None:
    paths = [UrlPath(f"s3://bucket/{number}") for number in range(20)]
    s3.pipe({str(path): path.name.encode() for path in paths})
    assert OBJECTS.versions(paths) == [OBJECTS.versions([path])[0] for path in paths]
    assert OBJECTS.sizes(paths) == [len(path.name) for path in paths]


@pytest.mark.long
def test_an_object_that_changes_while_it_is_read_is_an_error(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_cli.extensions.stores.objects._BLOCK_BYTES", 1 << 16)
    s3.pipe("bucket/x", b"first\n" * 100_000)
    pairs = ParallelFiles(text_path("s3://bucket/x"), text_path("s3://bucket/x")).pairs()
    assert next(pairs) == ("first", "first")
    s3.pipe("bucket/x", b"other\n" * 100_000)
    with pytest.raises(CorpusError, match=r"s3://bucket/x: cannot be read \("):
        list(pairs)


@pytest.mark.long
def test_without_bucket_network_or_credentials_a_line_says_so(
    s3: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match="s3://none/x: there is no such object or bucket"):
        OBJECTS.check_writable(UrlPath("s3://none/x"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    type(s3).clear_instance_cache()
    with pytest.raises(OutputError, match=r"s3://bucket/x: cannot be written \(Could not connect"):
        OBJECTS.check_writable(UrlPath("s3://bucket/x"))


@pytest.mark.long
def test_a_translation_of_objects_that_was_killed_goes_on(
    s3: Any, address: str, training: Training, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "in" / name).write_text(text)
        s3.pipe(f"bucket/in/{name}", text.encode())
    given: list[str | Path] = ["translate", training.run, "-i"]
    assert run(*given, "in", "-o", "out", cwd=tmp_path).code == 0
    given += ["s3://bucket/in/*", "-o", "s3://bucket/out/"]
    # The record, what it begins, then a file at a time.
    killed = run(*given, before=partial(use_s3_until_killed, address, 4))
    assert killed.code == -9
    s3.invalidate_cache()
    assert s3.find("bucket/out") == [f"bucket/out/{RECORD}", "bucket/out/a.txt"]
    finished = run(*given, before=partial(use_s3, address))
    assert (finished.code, finished.err) == (0, "translated 3 of 3 files\n")
    again = run(*given, before=partial(use_s3, address))
    assert again.err == "translated 0 of 3 files; already there: 3\n"
    s3.invalidate_cache()
    for name in TEXTS:
        assert s3.cat(f"bucket/out/{name}") == (tmp_path / "out" / name).read_bytes()

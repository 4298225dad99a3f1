"""Commands that read objects from a store, with an S3 server on loopback."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.locations import UrlPath, text_path
from transformer_cli.base.text_files import compressor
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.extensions.corpora.preparing import is_prepared, prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.stores.objects import OBJECTS

fsspec = pytest.importorskip("fsspec")
TEXTS = {"a.txt": "1 2 3 4\n\n4 3 2\n", "b.txt": "", "c.txt": "2 2\n3 4 5 6\n1\n"}


@pytest.fixture
def memory() -> Iterator[Any]:
    """Yield an empty store in memory."""
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
    refused = run("translate", training.run, "-o", "s3://bucket/out.txt")
    assert_refused(refused, 2, "-o s3://bucket/out.txt: output cannot be a URL")


# --- in an S3 on the loopback ---------------------------------------------------------------------


def use_s3(address: str) -> None:
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 server with an empty bucket, which this process uses too."""
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
def test_a_listing_gives_the_same_facts_as_the_objects(s3: Any) -> None:
    paths = [UrlPath(f"s3://bucket/{number}") for number in range(20)]
    s3.pipe({str(path): path.name.encode() for path in paths})
    assert OBJECTS.versions(paths) == [OBJECTS.versions([path])[0] for path in paths]
    assert OBJECTS.sizes(paths) == [len(path.name) for path in paths]


@pytest.mark.long
def test_an_object_that_changes_while_it_is_read_is_an_error(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_BLOCK_BYTES", "_READ_BYTES"):
        monkeypatch.setattr(f"transformer_cli.extensions.stores.objects.{name}", 1 << 16)
    s3.pipe("bucket/x", b"first\n" * 100_000)
    pairs = ParallelFiles(text_path("s3://bucket/x"), text_path("s3://bucket/x")).pairs()
    assert next(pairs) == ("first", "first")
    s3.pipe("bucket/x", b"other\n" * 100_000)
    with pytest.raises(CorpusError, match=r"s3://bucket/x: cannot be read \("):
        list(pairs)


@pytest.mark.long
def test_a_missing_bucket_network_or_credentials_gives_one_line(
    s3: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CorpusError, match="s3://none/x: there is no such object or bucket"):
        OBJECTS.open(UrlPath("s3://none/x"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    type(s3).clear_instance_cache()
    with pytest.raises(CorpusError, match=r"s3://bucket/x: cannot be read \(Could not connect"):
        OBJECTS.open(UrlPath("s3://bucket/x"))

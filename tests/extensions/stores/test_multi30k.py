import gzip
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import Web, serve

from transformer_cli.base.errors import CorpusError
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.kinds import default_split, load_split, open_kind
from transformer_cli.extensions.stores import multi30k
from transformer_cli.extensions.stores.settings import Multi30kData

FILES = {
    f"{split}.{lang}.gz": gzip.compress(f"{split} {lang}\n".encode() * 20, mtime=0)
    for split in ("train", "val")
    for lang in ("de", "en")
}
DIRECTORY = Path("data/multi30k")

# Read these variables before empty_project, below, hides them from every test.
PUBLISHED_SHA256 = multi30k.SHA256
PUBLISHED_URL = multi30k.BASE_URL
PUBLISHED_DIRECTORIES = [
    Path(name).absolute() for name in (DIRECTORY, os.environ.get("MULTI30K_DIR")) if name
]


@pytest.fixture(autouse=True)
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current directory, tiny published files, and access to no host except loopback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTI30K_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path.with_name(f"{tmp_path.name}-cache")))
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(multi30k, "SHA256", sums)
    monkeypatch.setattr(multi30k, "BASE_URL", f"http://127.0.0.1:{closed_port()}/")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    with serve() as web:
        web.bodies = dict(FILES)
        monkeypatch.setattr(multi30k, "BASE_URL", web.url)
        yield web


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def put(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_bytes(FILES[name])


def files_here() -> list[str]:
    """Every file in the current directory, by its path."""
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


def failure() -> str:
    """The message of a fetch that fails, which is one line and leaves no file behind."""
    with pytest.raises(CorpusError) as error:
        multi30k.fetch("train", "de", "en")
    assert files_here() == []
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_split_is_downloaded_and_then_kept(server: Web) -> None:
    paths = multi30k.fetch("train", "de", "en")
    assert [path.name for path in paths] == ["train.de.gz", "train.en.gz"]
    assert multi30k.find("train", "de", "en") == paths
    assert [path.read_bytes() for path in paths] == [FILES["train.de.gz"], FILES["train.en.gz"]]
    assert multi30k.fetch("train", "de", "en") == paths
    assert server.requests == ["train.de.gz", "train.en.gz"]  # no other split, nothing twice
    assert files_here() == []  # but in the cache


def test_sides_are_in_the_order_asked_for(server: Web) -> None:
    src, tgt = multi30k.fetch("val", "en", "de")
    assert (src.name, tgt.name) == ("val.en.gz", "val.de.gz")


def test_only_the_missing_side_is_downloaded(server: Web) -> None:
    put(DIRECTORY, "train.de.gz")
    multi30k.fetch("train", "de", "en")
    assert server.requests == ["train.en.gz"]


def test_the_project_is_looked_in_before_the_users_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(DIRECTORY, "train.de.gz")
    put(Path("mine"), "train.de.gz", "train.en.gz")
    monkeypatch.setenv("MULTI30K_DIR", "mine")
    assert multi30k.fetch("train", "de", "en") == (
        DIRECTORY / "train.de.gz",
        Path("mine/train.en.gz"),
    )


@pytest.mark.parametrize("value", ["", "nowhere"])
def test_a_users_directory_that_lacks_files_is_passed_over(
    server: Web, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    put(Path(), "train.de.gz")  # an empty $MULTI30K_DIR does not mean the current directory
    monkeypatch.setenv("MULTI30K_DIR", value)
    src, tgt = multi30k.fetch("train", "de", "en")
    assert (src.is_file(), tgt.is_file(), len(server.requests)) == (True, True, 2)


@pytest.mark.parametrize("directory", ["data/multi30k", "mine"])
def test_an_altered_file_on_disk_is_named_and_left_alone(
    server: Web, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.setenv("MULTI30K_DIR", "mine")
    put(Path(directory), "train.de.gz", "train.en.gz")
    altered = Path(directory) / "train.en.gz"
    altered.write_bytes(FILES["val.en.gz"])
    with pytest.raises(CorpusError, match=f"^{altered}: not the published file .*; delete it "):
        multi30k.fetch("train", "de", "en")
    assert altered.read_bytes() == FILES["val.en.gz"]
    assert server.requests == []


def test_an_unreadable_file_on_disk_is_named() -> None:
    (DIRECTORY / "train.de.gz").mkdir(parents=True)
    assert failure().startswith("data/multi30k/train.de.gz: cannot be read (Is a directory)")


def test_a_cut_off_download_is_refused(server: Web) -> None:
    server.cut = 10
    assert "the connection failed (" in failure()


def test_an_altered_download_is_refused(server: Web) -> None:
    server.bodies["train.de.gz"] = FILES["val.de.gz"]
    assert "not the expected file" in failure()


def test_a_server_that_is_down_is_an_error() -> None:
    assert "the connection failed (ConnectionError)" in failure()


def test_a_failed_second_side_leaves_a_whole_first_one(server: Web) -> None:
    server.bodies["train.en.gz"] = b""
    with pytest.raises(CorpusError):
        multi30k.fetch("train", "de", "en")
    server.bodies["train.en.gz"] = FILES["train.en.gz"]
    multi30k.fetch("train", "de", "en")
    assert server.requests == ["train.de.gz", "train.en.gz", "train.en.gz"]


def test_a_failed_download_says_how_to_do_it_by_hand() -> None:
    message = failure()
    assert message.startswith(f"{multi30k.BASE_URL}train.de.gz: could not be fetched: ")
    for part in (
        "train.de.gz and train.en.gz",
        "https://github.com/multi30k/dataset/tree/a3d2e0d26b56f3846f66a952536ffed4e401d05a",
        "into data/multi30k by hand",
        "$MULTI30K_DIR",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("is_directory", "told"), [(False, "(mine, which is not a directory)"), (True, "(mine)")]
)
def test_a_users_directory_that_did_not_help_is_named(
    monkeypatch: pytest.MonkeyPatch, is_directory: bool, told: str
) -> None:
    monkeypatch.setenv("MULTI30K_DIR", "mine")
    if is_directory:
        Path("mine").mkdir()
    assert f"; it is not in data/multi30k or $MULTI30K_DIR {told}: put train.de.gz" in failure()


# --- the published corpus -------------------------------------------------------------------------


def test_every_file_of_every_split_has_a_sum() -> None:
    names = {f"{split}.{lang}.gz" for split in multi30k.SPLITS for lang in ("de", "en")}
    assert set(PUBLISHED_SHA256) == names
    assert len(set(PUBLISHED_SHA256.values())) == len(names)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in PUBLISHED_SHA256.values())


def test_files_come_from_the_pinned_commit() -> None:
    assert PUBLISHED_URL == (
        "https://raw.githubusercontent.com/multi30k/dataset/"
        "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
    )


@pytest.mark.multi30k
@pytest.mark.parametrize(
    ("split", "lines"),
    [
        ("train", 29000),
        ("val", 1014),
        ("test_2016_flickr", 1000),
        ("test_2017_flickr", 1000),
        ("test_2017_mscoco", 461),
    ],
)
def test_published_line_counts(monkeypatch: pytest.MonkeyPatch, split: str, lines: int) -> None:
    for directory in PUBLISHED_DIRECTORIES:
        if all((directory / f"{split}.{lang}.gz").is_file() for lang in ("de", "en")):
            monkeypatch.setenv("MULTI30K_DIR", str(directory))
            break
    else:
        pytest.skip("no Multi30k files in $MULTI30K_DIR or data/multi30k")
    monkeypatch.setattr(multi30k, "SHA256", PUBLISHED_SHA256)
    assert len(ParallelFiles(*multi30k.fetch(split, "de", "en")).read()) == lines


# --- the kind of data -----------------------------------------------------------------------------


def test_its_splits() -> None:
    data = Multi30kData(kind="multi30k")
    assert open_kind(data).split_names()[:3] == ["train", "val", "test_2016_flickr"]
    assert default_split(data) == "test_2016_flickr"
    with pytest.raises(CorpusError, match="did you mean 'test_2016_flickr'"):
        load_split(data, "test_2016_flicker")


@pytest.mark.parametrize(("src_lang", "tgt_lang"), [("de", "en"), ("en", "de")])
def test_multi30k_goes_either_way(tmp_path: Path, src_lang: str, tgt_lang: str) -> None:
    put(DIRECTORY, "val.de.gz", "val.en.gz")
    data = Multi30kData.model_validate(
        {"kind": "multi30k", "src_lang": src_lang, "tgt_lang": tgt_lang}
    )
    found = load_split(data, "val")
    assert (found.src[0], found.tgt[0]) == (f"val {src_lang}", f"val {tgt_lang}")

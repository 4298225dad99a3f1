"""Commands read and write compressed files by their names."""

import gzip
import io
import json
import lzma
import signal
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import TINY, Training
from cli.process import assert_refused, run
from cli.test_missing_packages import hide
from copied_text import DATA
from faults.test_resume_translation import (
    OUTPUT,
    TEXT,
    TRANSLATOR,
    expected,
    here,
    interrupt,
    killed_at,
    names,
    translate,
)

from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import RowFormat, count_lines, open_format

__all__ = ["expected", "here"]


def test_the_name_within_a_gz_file_means_nothing(tmp_path: Path) -> None:
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    texts = ("1 2 3 4", "4 3 2 1", "2 1 3", "3 1 2")
    for name, line in zip(("src", "tgt", "val.src", "val.tgt"), texts, strict=True):
        with (
            (work / f"{name}.gz").open("wb") as file,
            gzip.GzipFile(filename="../../outside", mode="wb", fileobj=file) as packed,
        ):
            packed.write(f"{line}\n".encode() * 40)
    (work / "config.yaml").write_text(
        TINY.replace(
            DATA,
            "{kind: files, src_lang: de, tgt_lang: en, train: {src: src.gz, tgt: tgt.gz}, "
            "val: {src: val.src.gz, tgt: val.tgt.gz}}",
        )
    )
    finished = run("train", "config.yaml", "--set", "training.epochs=1", cwd=work)
    assert finished.code == 0, finished.err
    assert sorted(path.name for path in tmp_path.rglob("outside*")) == []
    assert {path.name for path in work.iterdir()} >= {"config.yaml", "runs", "src.gz"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_archive_of_files_is_no_corpus(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../outside", "1 2 3\n")
    (tmp_path / "src.gz").write_bytes(data.getvalue())
    (tmp_path / "tgt").write_text("1\n")
    (tmp_path / "val").write_text("2\n")
    (tmp_path / "val2").write_text("3\n")
    (tmp_path / "config.yaml").write_text(
        "data: {kind: files, src_lang: de, tgt_lang: en, train: {src: src.gz, tgt: tgt}, "
        "val: {src: val, tgt: val2}}\ntokenizer: {kind: words}\n"
    )
    refused = run("train", "config.yaml", cwd=tmp_path)
    assert_refused(refused, 1, "src.gz: damaged or cut-off gzip file")


def test_compressed_files_are_read_and_written_by_their_names(
    training: Training, tmp_path: Path
) -> None:
    (tmp_path / "src.gz").write_bytes(gzip.compress(b"s1 s2\ns3\n"))
    (tmp_path / "ref.xz").write_bytes(lzma.compress(b"s1 s2\ns3\n"))
    files = ("--src", tmp_path / "src.gz", "--ref", tmp_path / "ref.xz")
    finished = run("evaluate", training.run, *files, "-o", tmp_path / "out.gz", "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["sentences"] == 2
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).count(b"\n") == 2


def test_all_files_may_be_compressed(training: Training, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"s1 s2\n\ns3\n"))
    (tmp_path / "starts.xz").write_bytes(lzma.compress(b"s2\n\n\n"))
    places = ("-i", "in.gz", "--prefix-file", "starts.xz")
    plain = run("translate", training.run, *places, "--alignments", "links", cwd=tmp_path)
    assert plain.code == 0, plain.err
    outputs = ("-o", "out.gz", "--alignments", "links.xz")
    finished = run("translate", training.run, *places, *outputs, cwd=tmp_path)
    assert (finished.code, finished.err) == (0, "")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == plain.out
    assert (
        lzma.decompress((tmp_path / "links.xz").read_bytes()) == (tmp_path / "links").read_bytes()
    )
    assert plain.out.startswith("s2 ")
    assert plain.out.count("\n") == 3


def test_a_damaged_input_is_named(training: Training, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"s1 s2\n")[:-1])
    refused = run("translate", training.run, "-i", "in.gz", "-o", "out", cwd=tmp_path)
    assert_refused(refused, 1, "in.gz: damaged or cut-off gzip file (")
    assert [path.name for path in tmp_path.iterdir()] == ["in.gz"]


def test_compressed_standard_input_is_told_from_another_encoding(training: Training) -> None:
    refused = run("translate", training.run, stdin=gzip.compress(b"s1 s2\n"))
    assert_refused(refused, 1, "standard input: is compressed; ", "decompress it first")


@pytest.mark.parametrize(
    ("package", "options", "advice"),
    [
        ("backports", ["-o", "out.zst"], "pip install backports.zstd"),
        ("lzma", ["-i", "in.xz"], "in.xz: .xz needs Python's module lzma"),
    ],
)
def test_a_missing_package_is_named(
    training: Training, tmp_path: Path, package: str, options: list[str], advice: str
) -> None:
    if package == "backports" and sys.version_info >= (3, 14):
        pytest.skip("Python has it itself")
    (tmp_path / "in.xz").touch()
    hidden = partial(hide, (package,))
    refused = run("translate", training.run, *options, cwd=tmp_path, before=hidden)
    assert_refused(refused, 1, package, advice)


def test_the_lines_of_a_compressed_file_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(b"a\n"))
    paths = {"run": tmp_path, "input_": tmp_path / "in.txt.gz", "output": tmp_path / "out.gz"}
    built = build_options(TranslateOptions, "translate", **paths)
    form = open_format(built)
    assert isinstance(form, RowFormat)
    assert count_lines(built) is None


# --- resuming -------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("ending", [".gz", ".xz"])
@pytest.mark.parametrize(
    ("where", "attribute", "call"),
    [
        (TRANSLATOR, "translate_encoded", 3),
        (f"{OUTPUT}:os", "fsync", 2),  # a member is written that the journal does not know of
        (f"{OUTPUT}:Output", "commit", 3),
    ],
)
def test_what_is_compressed_goes_on_from_a_members_end(
    training: Training,
    here: Path,
    expected: bytes,
    ending: str,
    where: str,
    attribute: str,
    call: int,
) -> None:
    library: Any = {".gz": gzip, ".xz": lzma}[ending]
    (here / f"in.txt{ending}").write_bytes(library.compress(TEXT))
    places = ("-i", here / f"in.txt{ending}", "-o", here / f"out.txt{ending}")
    assert translate(training, here, *places).code == 0
    alone = (here / f"out.txt{ending}").read_bytes()
    assert library.decompress(alone) == expected
    (here / f"out.txt{ending}").unlink()
    killed = translate(training, here, *places, before=partial(killed_at, where, attribute, call))
    assert killed.code == -signal.SIGKILL
    finished = translate(training, here, *places)
    assert (finished.code, finished.err) == (0, "")
    assert (here / f"out.txt{ending}").read_bytes() == alone
    assert names(here) == ["in.txt", f"in.txt{ending}", f"out.txt{ending}"]


def test_plain_text_is_not_gone_on_with_by_compressed_text(
    training: Training, here: Path, expected: bytes
) -> None:
    interrupt(training, here)
    # As an older version, which compressed nothing, has left them.
    for name in ("partial", "partial.json"):
        (here / f"out.txt.{name}").rename(here / f"out.txt.gz.{name}")
    finished = translate(training, here, "-o", here / "out.txt.gz")
    assert finished.code == 0
    assert "out.txt.gz.partial: compression was none, now .gz; starting again" in finished.err
    assert gzip.decompress((here / "out.txt.gz").read_bytes()) == expected

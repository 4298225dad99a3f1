"""Documents in other encodings than UTF-8."""

import shutil
from pathlib import Path

import pytest
from cli.process import assert_refused, run


def test_a_document_that_is_not_utf8_has_a_line_number(own_run: Path) -> None:
    (own_run / "in.md").write_bytes(b"1 2\n\n\xe4\n")
    refused = run("translate", own_run, "-i", "in.md", "-o", "../out.md", cwd=own_run)
    assert_refused(refused, 1, "in.md:3: not utf-8 (byte 0xe4); set its encoding with --encoding")


@pytest.mark.parametrize("encoding", ["utf-16", "UTF-16BE", "utf-16-le", "utf-8-sig", "cp1252"])
def test_documents_are_read_in_their_encoding(own_run: Path, encoding: str) -> None:
    command = ("translate", own_run, "--encoding", encoding)
    (own_run / "in.srt").write_bytes("1\n00:00:01,000 --> 00:00:02,000\n1 2é\n".encode(encoding))
    assert run(*command, "-i", "in.srt", "-o", "../out.srt", cwd=own_run).code == 0
    assert " --> " in (own_run.parent / "out.srt").read_bytes().decode(encoding)
    (own_run / "in.html").write_bytes("<p>1 2é</p>".encode(encoding))
    assert run(*command, "-i", "in.html", "-o", "../out.html", cwd=own_run).code == 0
    assert (own_run.parent / "out.html").read_bytes().decode(encoding).startswith("<p>")


def test_what_says_its_encoding_takes_no_other(own_run: Path) -> None:
    options = ("--encoding", "cp1252", "-i", "x.po", "-o", "y.po")
    assert_refused(run("translate", own_run, *options), 2, "such files say theirs")


@pytest.mark.long
def test_a_report_misses_a_tokenizer_that_is_gone(own_run: Path) -> None:
    shutil.rmtree(own_run / "tokenizer")
    refused = run("report", own_run)
    assert_refused(refused, 1, f"{own_run}/tokenizer/tokenizer.json: cannot be read", "restore it")

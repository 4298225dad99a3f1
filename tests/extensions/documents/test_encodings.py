"""Documents in encodings other than UTF-8."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run


def test_a_document_that_is_not_utf8_has_a_line_number(own_run: Path) -> None:
    (own_run / "in.md").write_bytes(b"1 2\n\n\xe4\n")
    refused = run("translate", own_run, "-i", "in.md", "-o", "../out.md", cwd=own_run)
    assert_refused(refused, 1, "in.md:3: not utf-8 (byte 0xe4); convert it with iconv -f NAME")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_documents_are_read_by_their_byte_order_mark(own_run: Path, encoding: str) -> None:
    command = ("translate", own_run)
    (own_run / "in.srt").write_bytes("1\n00:00:01,000 --> 00:00:02,000\n1 2é\n".encode(encoding))
    assert run(*command, "-i", "in.srt", "-o", "../out.srt", cwd=own_run).code == 0
    assert " --> " in (own_run.parent / "out.srt").read_bytes().decode(encoding)
    (own_run / "in.html").write_bytes("<p>1 2é</p>".encode(encoding))
    assert run(*command, "-i", "in.html", "-o", "../out.html", cwd=own_run).code == 0
    assert (own_run.parent / "out.html").read_bytes().decode(encoding).startswith("<p>")

from pathlib import Path

import pytest

from transformer_cli.base.errors import UsageError
from transformer_cli.inference.plain_text import check_is_text


@pytest.mark.parametrize(
    "name", ["x.po", "x.XLF.gz", "x.tmx", "x.mo", "x.mqxliff", "x.docx", "x.json", "x.pdf.xz"]
)
def test_files_that_are_no_lines_are_refused_by_their_names(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: its lines are not sentences, .* or a table$"):
        check_is_text(Path(name), "lines of text or a table")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.ts", '\ufeff<?xml version="1.0"?>\n<!DOCTYPE TS>\n'),
        ("x.ts", 'import { A } from "./a";\n'),
        ("x.ts", "'use client'\n"),
        ("x.hbs", "<div>\n  {{name}}\n</div>\n"),
        ("x.smi", "<SAMI>\n<HEAD>\n"),
        ("x.lrc", "[00:12.00]A dog\n"),
        ("x.txt", '{\n  "a": "A dog"\n}\n'),
        ("x.txt", '# A comment\nmsgid ""\nmsgstr ""\n'),
        ("x.en", "1\r\n00:00:01,000 --> 00:00:02,000\r\nA dog\r\n"),
    ],
)
def test_files_that_begin_like_markup_or_code_are_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"{name}: its lines are not sentences"):
        check_is_text(tmp_path / name, "lines of text")


@pytest.mark.parametrize(
    "text",
    [
        "A dog.\n",
        "<2de> A dog.\n",
        "[1:1] A dog\n",
        "12:30\n",
        "import a dog\n",
        'Class ist "rot"\n',
        "{{name}} hat den Raum betreten\n",
        'Let it be known as "Fred"\n',
        "Function follows 'form'\n",
        'Import wine from "Spain"\n',
        '"Use the door"\n',
        "Class dismissed;\n",
        "// said nobody\n",
        "[12:30:05] hello\n",
        "[[1]] See below\n",
        "[{0}] by a dog\n",
        "---\n",
        "# x\n",
        "",
        "{0}\n",
    ],
)
def test_lines_of_text_are_read(tmp_path: Path, text: str) -> None:
    for name in ("x.ts", "x.en", "x.arb"):
        (tmp_path / name).write_text(text)
        check_is_text(tmp_path / name, "lines of text")

"""``translate`` with documents, by a trained run that translates numbers."""

from pathlib import Path

import pytest
from browser import narrow_to_phone, open_page
from cli.conftest import Training
from cli.process import assert_refused, run

PO = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#, c-format
msgid "1 2 x %d"
msgstr ""

msgid "4 3 2 1"
msgstr "1 1 1 1"
"""


def test_a_po_file_is_filled_in_its_place(training: Training, tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(PO)
    finished = run("translate", training.run, "-i", "de.po", "-o", "de.po", cwd=tmp_path)
    assert finished.code == 0
    assert finished.out == ""
    assert finished.err == "filled 1 of 1 segments\n"
    start, end = PO.replace("#, c-format", "#, fuzzy, c-format").split('msgstr ""\n', 1)
    written = (tmp_path / "de.po").read_text()
    assert written.startswith(start)
    assert written.endswith(end)
    assert "%d" in written.removeprefix(start).removesuffix(end)


@pytest.mark.posix
def test_a_file_keeps_its_mode(training: Training, tmp_path: Path) -> None:
    path = tmp_path / "x.srt"
    path.touch(0o604)
    assert run("translate", training.run, "-i", "x.srt", "-o", "x.srt", cwd=tmp_path).code == 0
    assert path.stat().st_mode & 0o777 == 0o604


def test_of_many_files_documents_are_filled(training: Training, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "de.po").write_text(PO)
    (tmp_path / "in" / "x.txt").write_text("1 2\n")
    command = ("translate", training.run, "-i", "in", "-o", "out")
    finished = run(*command, cwd=tmp_path)
    assert finished.code == 0
    assert finished.err == (
        f"{tmp_path}/in/de.po: filled 1 of 1 segments\ntranslated 2 of 2 files\n"
    )
    run("translate", training.run, "-i", "in/de.po", "-o", "alone.po", cwd=tmp_path)
    assert (tmp_path / "out" / "de.po").read_bytes() == (tmp_path / "alone.po").read_bytes()
    assert run(*command, cwd=tmp_path).err == "translated 0 of 2 files; already there: 2\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-o", "x.po", "--n-best", "2"), "--n-best is for lines and tables"),
        (("-o", "x.txt"), "-o: a document keeps its format"),
        ((), "need an output file"),
        (("-o", "x.po", "--report", "x.po"), "-o and --report are both x.po"),
        (("-o", "x.po", "--report", "-"), "--report needs the name of a file"),
        (("-o", "x.po", "--report", "de.po"), "--report de.po: is the file that -i reads"),
        (("-o", "own.po", "--memory", "own.po"), "-o own.po: is the file that --memory reads"),
    ],
)
def test_options_of_lines_are_refused(
    training: Training, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "de.po").write_text(PO)
    (tmp_path / "own.po").write_text(PO)
    finished = run("translate", training.run, "-i", "de.po", *options, cwd=tmp_path)
    assert_refused(finished, 2, problem)


def test_no_fuzzy_is_for_po_files(training: Training, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 2\n")
    finished = run("translate", training.run, "-i", "x.txt", "--no-fuzzy", cwd=tmp_path)
    assert_refused(finished, 2, "--no-fuzzy is for PO files")


def test_a_memory_is_asked_first_and_a_page_written(training: Training, tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(PO + '\nmsgid "5 5 <b>"\nmsgstr ""\n')
    (tmp_path / "own.tsv").write_text("1 2 x %d\t7 < %d & 8\n")
    options = ("--memory", "own.tsv", "--report", "page.html")
    finished = run("translate", training.run, "-i", "de.po", "-o", "x.po", *options, cwd=tmp_path)
    assert finished.code == 0, finished.err
    assert finished.err.startswith("filled 2 of 2 segments (1 from the memory")
    assert 'msgstr "7 < %d & 8"' in (tmp_path / "x.po").read_text()
    page = (tmp_path / "page.html").read_text()
    assert "7 &lt; %d &amp; 8" in page
    # The memory's translations are the surest. Tags look different from text.
    assert page.index("5 5 &lt;b&gt;") < page.index("1 2 x %d")
    assert "confidence" in page


SRT = """\
1
00:00:01,000 --> 00:00:04,000
<i>x 2</i> {\\an8}y

2
00:00:05,000 --> 00:00:08,000
zzz yyy xxx zzz yyy xxx
"""


@pytest.fixture(scope="module")
def page(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report about subtitles with a long filename."""
    directory = tmp_path_factory.mktemp("review")
    name = "a_file_whose_name_is_rather_long_season_1_episode_2.srt"
    (directory / name).write_text(SRT)
    files = ("-i", name, "-o", "out.srt", "--report", "page.html")
    finished = run("translate", training.run, *files, cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "page.html"


def test_a_page_shows_tags_as_tags(page: Path) -> None:
    text = page.read_text()
    for tag in ("&lt;i&gt;", "&lt;/i&gt;", "{\\an8}"):
        assert text.count(f'<code class="tag">{tag}</code>') == 2
    assert '<span class="line">3</span>' in text
    assert 'data-label="memory"' not in text  # a phone would show it, with nothing below it


@pytest.mark.browser
def test_columns_of_a_page_do_not_overlap(page: Path, tmp_path: Path) -> None:
    with open_page(page, tmp_path / "profile") as shown:
        too_wide = (
            "() => [...document.querySelectorAll('th, td')]"
            ".filter((cell) => cell.scrollWidth > cell.clientWidth + 1)"
            ".map((cell) => cell.textContent)"
        )
        assert shown.evaluate(too_wide) == []
        narrow_to_phone(shown)
        assert shown.evaluate(too_wide) == []


def test_a_memory_is_for_documents(training: Training, tmp_path: Path) -> None:
    refused = run("translate", training.run, "--memory", "own.tsv", stdin=b"1\n", cwd=tmp_path)
    assert_refused(refused, 2, "--memory is for text files and documents")
    (tmp_path / "x.txt").write_text("1\n")
    command = ("translate", training.run, "-i", "x.txt", "--memory", "own.tsv")
    assert_refused(run(*command, cwd=tmp_path), 2, "need an output file; name it with -o")


def test_lines_become_no_document(training: Training, tmp_path: Path) -> None:
    refused = run("translate", training.run, "-o", "x.po", stdin=PO.encode(), cwd=tmp_path)
    assert_refused(refused, 2, "-o x.po: a document can only be made from a document")
    assert not any(tmp_path.iterdir())


def test_a_text_with_a_memory_is_written_line_by_line(training: Training, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("1 2\tneun acht\n")
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbf1 2\r\n\r\n 3 4 \n1 2")
    command = ("translate", training.run, "-i", "x.txt", "-o", "y.txt", "--memory", "own.tsv")
    finished = run(*command, cwd=tmp_path)
    assert finished.err == "filled 3 of 3 segments (2 from the memory)\n"
    first, blank, third, last = (tmp_path / "y.txt").read_bytes().split(b"\n")
    assert (first, blank, last) == ("\ufeffneun acht\r".encode(), b"\r", b"neun acht")
    # This model was trained on lines without letters, so it translates them here as well.
    alone = run("translate", training.run, stdin=b"3 4\n").out.strip()
    assert third.decode() == f" {alone} "

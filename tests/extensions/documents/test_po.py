"""PO files: untranslated entries are filled, and all other bytes stay the same."""

import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

import polib
import pytest

from extensions.documents.fakes import Line, filled, read, reverse, translating
from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.document import Filling

HEADER = """\
# A comment
msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""
DONE = """\
#. of the programmer's
#: a.c:12
#, c-format
msgctxt "menu"
msgid   "Open %s"
msgstr  "%s öffnen"

"""
AFTER = """\
#, fuzzy
#~ msgid "old"
#~ msgstr ""

# the last
msgid "File"
msgstr ""
"Da"
"tei"
"""


def check_by_gettext(data: bytes, *command: str) -> None:
    command = command or ("msgfmt", "-c", "-o", "/dev/null", "-")
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    subprocess.run(command, input=data, check=True)


def check_filled(tmp_path: Path, entry: str, expected: str, marks_fuzzy: bool = True) -> None:
    """Fill an entry between others, which must stay unchanged."""
    text = f"{HEADER}{DONE}{entry}\n{AFTER}"
    data, _ = filled(tmp_path / "x.po", text, marks_fuzzy=marks_fuzzy)
    written = data.decode()
    before, after = HEADER + DONE, "\n" + AFTER
    assert written.startswith(before)
    assert written.endswith(after)
    assert written[len(before) : -len(after)] == expected
    check_by_gettext(data)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            '# kept\nmsgid "Close"\nmsgstr ""\n',
            '# kept\n#, fuzzy\nmsgid "Close"\nmsgstr "CLOSE"\n',
        ),
        (
            '#, fuzzy, c-format\n#| msgid "%d old"\nmsgid "%d new"\nmsgstr "%d alte"\n',
            '#, fuzzy, c-format\nmsgid "%d new"\nmsgstr "%d NEW"\n',
        ),
        (
            '#, no-wrap\nmsgid "a\\n"\nmsgstr ""\n',
            '#, fuzzy, no-wrap\nmsgid "a\\n"\nmsgstr "A\\n"\n',
        ),
        (
            'msgid "one %d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n',
            '#, fuzzy\nmsgid "one %d file"\nmsgid_plural "%d files"\n'
            'msgstr[0] "ONE %d FILE"\nmsgstr[1] "%d FILES"\n',
        ),
        (
            'msgid ""\n"tab\\t\\"quoted\\" back\\\\slash.\\n"\n"Second."\nmsgstr ""\n',
            '#, fuzzy\nmsgid ""\n"tab\\t\\"quoted\\" back\\\\slash.\\n"\n"Second."\nmsgstr ""\n'
            '"TAB \\"QUOTED\\" BACK\\\\SLASH.\\n"\n"SECOND."\n',
        ),
        ('msgid "%s: %d"\nmsgstr ""\n', '#, fuzzy\nmsgid "%s: %d"\nmsgstr "%s: %d"\n'),
    ],
)
def test_empty_and_fuzzy_entries_are_filled(tmp_path: Path, entry: str, expected: str) -> None:
    check_filled(tmp_path, entry, expected)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('msgid "Close"\nmsgstr ""\n', 'msgid "Close"\nmsgstr "CLOSE"\n'),
        ('#, fuzzy\nmsgid "Close"\nmsgstr "zu"\n', 'msgid "Close"\nmsgstr "CLOSE"\n'),
        (
            '#, fuzzy, c-format\nmsgid "%d new"\nmsgstr ""\n',
            '#, c-format\nmsgid "%d new"\nmsgstr "%d NEW"\n',
        ),
        (
            '#, c-format, fuzzy\nmsgid "%d new"\nmsgstr ""\n',
            '#, c-format\nmsgid "%d new"\nmsgstr "%d NEW"\n',
        ),
    ],
)
def test_without_fuzzy_marks_there_are_none(tmp_path: Path, entry: str, expected: str) -> None:
    check_filled(tmp_path, entry, expected, marks_fuzzy=False)


def test_entries_that_msgfmt_would_refuse_are_fuzzy(tmp_path: Path) -> None:
    text = HEADER + '#, c-format\nmsgid "%d of %s"\nmsgstr ""\n'
    document = read(tmp_path / "x.po", text, marks_fuzzy=False)
    assert b"fuzzy" not in document.write([Filling("%d von %s")])
    assert b"#, fuzzy, c-format" in document.write([Filling("%s von %d")])
    assert b"#, fuzzy, c-format" in document.write([Filling("von", problem="without '%d'")])
    for directive in ("%<PRIuMAX>", "%Zd", "%5.2lf", "%(dog)s"):
        text = HEADER + f'#, c-format\nmsgid "of {directive}"\nmsgstr ""\n'
        document = read(tmp_path / "x.po", text, marks_fuzzy=False)
        assert b"fuzzy" not in document.write([Filling(f"von {directive}")])
        assert b"#, fuzzy, c-format" in document.write([Filling(f"von {directive.swapcase()}")])


def test_line_ends_marks_and_encodings_stay(tmp_path: Path) -> None:
    text = (HEADER + 'msgid "Close"\nmsgstr ""').replace("UTF-8", "ISO-8859-1")
    data = text.replace("\n", "\r\n").replace("A comment", "ÄÖÜ").encode("latin-1")
    written, _ = filled(tmp_path / "x.po", data)
    expected = b'#, fuzzy\r\nmsgid "Close"\r\nmsgstr "CLOSE"'
    assert written == data.replace(b'msgid "Close"\r\nmsgstr ""', expected)
    marked = b"\xef\xbb\xbf" + (HEADER + DONE).encode()
    assert filled(tmp_path / "x.po", marked)[0] == marked
    written, _ = filled(tmp_path / "x.po", '\ufeffmsgid "a"\nmsgstr ""\n')
    assert written.decode() == '\ufeff#, fuzzy\nmsgid "a"\nmsgstr "A"\n'


def test_text_that_cannot_be_written_is_left_and_reported(tmp_path: Path) -> None:
    text = (HEADER + 'msgid "Close"\nmsgstr ""\n').replace("UTF-8", "US-ASCII")
    data, result = filled(tmp_path / "x.po", text, translating(lambda _: Line("Schließen")))
    assert data == text.encode()
    assert result.summary()[0] == "filled 0 of 1 segments"
    assert "x.po:8: its translation has characters that are not in ascii" in result.summary()[1]


def test_without_a_plural_rule_plurals_are_left(tmp_path: Path) -> None:
    header = HEADER.replace("nplurals=2; plural=(n != 1);", "nplurals=INTEGER; plural=EXPRESSION;")
    text = header + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    data, result = filled(tmp_path / "x.pot", text)
    assert data == text.encode()
    assert result.summary()[-1].endswith("x.pot:8: the header has no Plural-Forms")


def test_a_plural_with_some_of_its_forms_is_reported(tmp_path: Path) -> None:
    text = HEADER + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\nmsgstr[1] ""\n'
    data, result = filled(tmp_path / "x.po", text)
    assert data == text.encode()
    assert result.summary()[-1].endswith("x.po:8: some of its plural forms are empty")


def test_a_language_with_three_forms_gets_three(tmp_path: Path) -> None:
    rule = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);"
    header = HEADER.replace("nplurals=2; plural=(n != 1);", rule)
    text = header + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    data, _ = filled(tmp_path / "x.po", text)
    assert data.decode().endswith('msgstr[0] "A"\nmsgstr[1] "B"\nmsgstr[2] "B"\n')


@pytest.mark.parametrize(
    ("rule", "one", "expected"),
    [
        ("n%10==1 && n%100!=11 ? 0 : 1", "a dog", ["%d DOGS", "%d DOGS"]),  # Icelandic
        ("n%10==1 && n%100!=11 ? 0 : 1", "%d dog", ["%d DOG", "%d DOGS"]),
        ("n%100==1 ? 1 : n%100==2 ? 2 : 0", "a dog", ["%d DOGS"] * 3),  # Slovenian
        ("n==1 ? 0 : n%10==1 ? 1 : 2", "a dog", ["A DOG", "%d DOGS", "%d DOGS"]),
        ("n > 1", "a dog", ["A DOG", "%d DOGS"]),  # French, where form 0 is also for no dogs
    ],
)
def test_a_form_for_one_and_other_numbers_has_a_number(
    tmp_path: Path, rule: str, one: str, expected: list[str]
) -> None:
    header = HEADER.replace(
        "nplurals=2; plural=(n != 1)", f"nplurals={len(expected)}; plural={rule}"
    )
    entry = f'#, c-format\nmsgid "{one}"\nmsgid_plural "%d dogs"\n'
    forms = (f'msgstr[{form}] ""\n' for form in range(len(expected)))
    data, _ = filled(tmp_path / "x.po", header + entry + "".join(forms), marks_fuzzy=False)
    assert list(polib.pofile(data.decode())[0].msgstr_plural.values()) == expected
    check_by_gettext(data)


@pytest.mark.parametrize(
    ("flag", "one", "many", "is_fuzzy"),
    [
        ("c", "a dog in %s", "%d dogs in %s", True),
        ("c", "a dog in %2$s", "%1$d dogs in %2$s", True),
        ("c", "%2$s has a dog", "%2$s has %1$d dogs", True),
        ("c", "%1$s has a dog", "%1$s has %2$d dogs", False),
        ("c", "%2$d dog of %1$s", "%1$s has %2$d dogs", False),
        ("c", "a dog", "%d dogs", False),
        ("c", "a dog", "%d dogs in %s", True),
        ("python", "a dog", "%d dogs", True),
        ("python", "a dog", "%(dogs)d dogs", False),
        ("python-brace", "a dog", "{dogs} dogs", False),
        ("qt", "a dog", "%1 dogs", True),
    ],
)
def test_a_form_that_does_not_fit_the_plural_is_fuzzy(
    tmp_path: Path, flag: str, one: str, many: str, is_fuzzy: bool
) -> None:
    entry = f'#, {flag}-format\nmsgid "{one}"\nmsgid_plural "{many}"\n'
    document = read(
        tmp_path / "x.po", f'{HEADER}{entry}msgstr[0] ""\nmsgstr[1] ""\n', marks_fuzzy=False
    )
    written = document.write([Filling(f"X {one}"), Filling(f"X {many}")])
    assert (b"#, fuzzy" in written) == is_fuzzy
    check_by_gettext(written)


@pytest.mark.parametrize(
    "header",
    [
        "",
        'msgid ""\nmsgstr ""\n"Language: de\\n"\n\n',
        '#, fuzzy\nmsgid ""\nmsgstr "Language: de\\n"\n\n',
        'msgid ""\nmsgstr "Language: de"\n\n',
        'msgid ""\nmsgstr ""\n\n',
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n"X: y\\n"\n\n',
    ],
)
def test_the_header_names_the_character_set_of_translations(tmp_path: Path, header: str) -> None:
    text = header + 'msgid "A bear"\nmsgstr ""\n'
    data, _ = filled(tmp_path / "x.pot", text, translating(lambda _: Line("Ein Bär")), False)
    read_by_polib = polib.pofile(data.decode())
    assert read_by_polib.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert read_by_polib.metadata.get("Language", "de") == "de"
    assert read_by_polib[0].msgstr == "Ein Bär"
    ascii_only = header + 'msgid "A bear"\nmsgstr "A BEAR"\n'
    assert filled(tmp_path / "x.pot", text, marks_fuzzy=False)[0].decode() == ascii_only
    check_by_gettext(data, "msgcat", "-o", "/dev/null", "-")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_Hund", "_Hund"),
        ("A &Dog sleeps", "sleeps &Dog A"),
        ("~Open %s", "~%s Open"),
        ("E_xit", "_Exit"),
        ("Vie_w...", "_View..."),
        ("Cl_ose it", "_it Close"),
        ("<b>_File</b> a", "a <b>_File</b>"),
        ("R&D and _File", "_File and R&D"),
        ("_Cut & Paste", "_Paste & Cut"),
        # no accelerators
        ("Save &As (~fast)", "(~fast) &As Save"),
        ("R&D and file_name", "file_name and R&D"),
        ("&amp; dog", "dog &amp;"),
        ("my_file Name_of.", "Name_of. my_file"),
        ("_Rename old_file", "old_file _Rename"),
        ("Max_size (bytes)", "(bytes) Max_size"),
        ("Rock&roll music", "music Rock&roll"),
        ("IPv_four", "IPv_four"),
        ("Use __init__ and _private", "_private and __init__ Use"),
        ("~/.config or ~user", "~user or ~/.config"),
        ("a _emphasis_", "_emphasis_ a"),
        ("Save &As… && more", "more && &As… Save"),
        (
            'Read <a href="x" target="_blank">the manual</a> now',
            'now <a href="x" target="_blank">manual the</a> Read',
        ),
        ("%s_old x", "x %s_old"),
        (r"&Search the Web…\tCtrl+H", r"&Web… the Search\tCtrl+H"),
        (r"Old dog\tF5", r"dog Old\tF5"),
        (r"Old dog\tAlt + Page Up", r"dog Old\tAlt + Page Up"),
        (r"Old dog\tCtrl++", r"dog Old\tCtrl++"),
        (r"Old dog\tsleeps", "sleeps dog Old"),
    ],
)
def test_accelerators_keep_their_marks(tmp_path: Path, text: str, expected: str) -> None:
    written = text.replace('"', r"\"")
    data, result = filled(
        tmp_path / "x.po", f'{HEADER}msgid "{written}"\nmsgstr ""\n', translating(reverse)
    )
    assert polib.pofile(data.decode())[0].msgstr == expected.replace(r"\t", "\t")
    assert result.left == []
    if r"\t" in text:  # XLIFF reads a tab as a space
        return
    unit = f'<trans-unit id="1"><source>{escape(text)}</source></trans-unit>'
    xliff = (
        '<xliff version="1.2"><file source-language="en" target-language="de">'
        f"<body>{unit}</body></file></xliff>"
    )
    data, result = filled(tmp_path / "x.xlf", xliff, translating(reverse))
    assert f">{escape(expected)}</target>" in data.decode()
    assert result.left == []


def test_long_translations_are_wrapped_as_polib_reads_them(tmp_path: Path) -> None:
    source = "word " * 40 + "end.\\nNext  line with   spaces "
    text = HEADER + f'msgid ""\n"{source}"\nmsgstr ""\n'
    data, _ = filled(tmp_path / "x.po", text)
    entry = polib.pofile(data.decode())[0]
    assert entry.msgstr == ("WORD " * 40 + "END.\nNEXT LINE WITH SPACES ")
    written = data.decode().rpartition("msgstr ")[2]
    assert max(map(len, written.split("\n"))) <= 79


def test_another_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x.po: the header says 'Language: fr', but the run"):
        read(tmp_path / "x.po", HEADER.replace("Language: de", "Language: fr"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("msgid no quotes\n", "x.po:1: not a line of a PO file"),
        ('msgid "a"\n', "x.po:1: an entry without msgid or msgstr"),
        ('msgstr "a"\n', "x.po:1: an entry without msgid or msgstr"),
        ('msgid "a"\nmsgid "b"\nmsgstr ""\n', "x.po:2: a second msgid in one entry"),
        ('"a"\n', "x.po:1: a text without msgid or msgstr"),
        ('msgid "a"\n#~ c\nmsgstr ""\n', "x.po:2: an obsolete line within an entry"),
    ],
)
def test_an_invalid_po_file_gives_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(tmp_path / "x.po", text)


def test_a_model_that_makes_up_placeholders_is_not_believed(tmp_path: Path) -> None:
    def invent(text: str) -> Line:
        return (
            Line("%s {{ a }} <b c='d'>x</b>\x1c%d", ((0, 0), (0, 4)))
            if "%d" not in text
            else Line("x")
        )

    text = HEADER + '#, c-format\nmsgid "of %d"\nmsgstr ""\n'
    data, result = filled(tmp_path / "x.po", text, translating(invent))
    assert polib.pofile(data.decode())[0].msgstr.count("%") == 1
    assert not any(one.problem for _, one in result.pairs())

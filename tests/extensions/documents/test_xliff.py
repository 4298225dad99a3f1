"""XLIFF from several producers: targets are filled, and all other bytes stay the same."""

# ruff: noqa: E501

import os
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from translate.storage import xliff
from translate.storage.placeables import StringElem
from translate.storage.placeables.xliff import G, X

from extensions.documents.fakes import Line, filled, read, reverse, translating
from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.document import Filling

# As written by Okapi: segmented, with its own codes.
OKAPI = """\
<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:okp="okapi-framework:xliff-extensions">
<file original="a.html" source-language="en-US" target-language="de-DE" datatype="html" okp:inputEncoding="UTF-8">
<body>
<trans-unit id="tu1" xml:space="preserve">
<source xml:lang="en-US">First one. <g id="1">Second</g> one<x id="2"/>.</source>
<seg-source><mrk mid="0" mtype="seg">First one.</mrk> <mrk mid="1" mtype="seg"><g id="1">Second</g> one<x id="2"/>.</mrk></seg-source>
<target xml:lang="de-DE"></target>
<alt-trans><source>First</source><target>Erste</target></alt-trans>
</trans-unit>
<trans-unit id="tu2" translate="no"><source>code</source></trans-unit>
<group id="g" translate="no"><trans-unit id="tu3"><source>code</source></trans-unit></group>
</body>
</file>
</xliff>
"""
# As written by Weblate.
WEBLATE = """\
<?xml version='1.0' encoding='utf-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file source-language='en' datatype="plaintext" original="x">
    <body>
      <trans-unit id="a" resname="a">
        <source>R &amp; D &lt;now&gt;</source>
        <target state="new"/>
      </trans-unit>
      <trans-unit id="b" approved="yes">
        <source>Hello</source>
        <target state="translated">Hallo</target>
      </trans-unit>
      <trans-unit id="c">
        <source>Click <bpt id="1">[b]</bpt>here<ept id="1">[/b]</ept> <ph id="2">{0}</ph></source>
        <note>kept</note>
      </trans-unit>
      <trans-unit id="d">
        <source>old</source>
        <target state="needs-translation" state-qualifier="fuzzy-match">alt</target>
      </trans-unit>
    </body>
  </file>
</xliff>
"""
# Based on the examples of the standard, 2.1.
STANDARD = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">
 <file id="f1">
  <skeleton href="x"/>
  <unit id="u1">
   <originalData><data id="d1">&lt;b&gt;</data></originalData>
   <segment id="s1">
    <source>Some <pc id="1" dataRefStart="d1">bold and <ph id="2"/></pc> text.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2" state="final"><source>Done.</source><target>Fertig.</target></segment>
   <segment id="s3" state="initial"><source>A <sc id="3"/>b<ec startRef="3"/> c<mrk id="m" translate="no">Xy</mrk></source>
   <target>alt</target></segment>
  </unit>
  <group id="g" translate="no"><unit id="u2"><segment><source>code</source></segment></unit></group>
 </file>
</xliff>
"""
EXAMPLES = {".xlf": [OKAPI, WEBLATE, STANDARD]}


def fill_xliff(tmp_path: Path, text: str) -> str:
    data, result = filled(tmp_path / "x.xlf", text)
    assert result.left == []
    etree.fromstring(data)
    return data.decode()


# Other elements that the standards allow where we insert something.
CROWDED = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file original="x" source-language="en" datatype="xml">
<header><note>kept</note></header><body><group id="g"><context-group purpose="location"><context context-type="linenumber">3</context></context-group>
<trans-unit id="a"><source>One <mrk mtype="protected">two</mrk><it id="1" pos="open">[b]</it> three <ph id="2">[<sub>sub</sub>]</ph></source>
<context-group purpose="location"><context context-type="linenumber">3</context></context-group><note>kept</note><alt-trans><target>alt</target></alt-trans></trans-unit>
</group></body></file></xliff>
"""
CROWDED_2 = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" xmlns:m="urn:oasis:names:tc:xliff:metadata:2.0" version="2.0" srcLang="en" trgLang="de">
<file id="f"><notes><note>kept</note></notes><group id="g"><unit id="u"><m:metadata><m:metaGroup><m:meta type="a">b</m:meta></m:metaGroup></m:metadata>
<notes><note id="n">kept</note></notes><originalData><data id="d">\\n</data></originalData>
<segment><source>A <sm id="1" type="comment" ref="#n=n"/>b<em startRef="1"/> <cp hex="001A"/> <ph id="2" dataRef="d"/>c <mrk id="3" type="term">d</mrk></source></segment></unit>
<unit id="v"><segment><source>E f</source><target/></segment></unit></group></file></xliff>
"""


@pytest.mark.skipif("XLIFF_SCHEMAS" not in os.environ, reason="needs the standard's schemas")
@pytest.mark.parametrize("text", [OKAPI, WEBLATE, CROWDED, STANDARD, CROWDED_2])
def test_filled_files_are_valid(tmp_path: Path, text: str) -> None:
    directory = Path(os.environ["XLIFF_SCHEMAS"])

    class Local(etree.Resolver):  # type: ignore[misc]  # lxml has no types
        def resolve(self, _: str, __: object, context: Any) -> Any:
            return self.resolve_filename(str(directory / "xml.xsd"), context)

    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(Local())
    name = "xliff-core-1.2-strict.xsd" if 'version="1.2"' in text else "xliff-core-2.0.xsd"
    root = etree.fromstring((directory / name).read_bytes(), parser)
    schema = etree.XMLSchema(root)
    document = read(tmp_path / "x.xlf", text.replace(' okp:inputEncoding="UTF-8"', ""))
    schema.assertValid(etree.fromstring(document.write([None] * len(document.segments))))
    for comment in ("", "75 %: a = b"):
        fillings = [Filling(segment.text, comment=comment) for segment in document.segments]
        schema.assertValid(etree.fromstring(document.write(fillings)))


def test_segmented_units_are_filled_segment_by_segment(tmp_path: Path) -> None:
    target = (
        '<target xml:lang="de-DE" state="needs-review-translation" state-qualifier="mt-suggestion">'
        '<mrk mid="0" mtype="seg">FIRST ONE.</mrk> <mrk mid="1" mtype="seg">'
        '<g id="1">SECOND</g> ONE<x id="2"/>.</mrk></target>'
    )
    expected = OKAPI.replace('<target xml:lang="de-DE"></target>', target)
    assert fill_xliff(tmp_path, OKAPI) == expected


def test_states_are_set_and_translations_stay(tmp_path: Path) -> None:
    state = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    expected = (
        WEBLATE.replace("'en'", "'en'")
        .replace('original="x">', 'original="x" target-language="de">')
        .replace('<target state="new"/>', f"<target {state}>R &amp; D &lt;NOW&gt;</target>")
        .replace(
            "{0}</ph></source>\n",
            "{0}</ph></source>\n        "
            f'<target {state}>CLICK <bpt id="1">[b]</bpt>HERE<ept id="1">[/b]</ept> '
            '<ph id="2">{0}</ph></target>\n',
        )
        .replace(
            '<target state="needs-translation" state-qualifier="fuzzy-match">alt',
            f"<target {state}>OLD",
        )
    )
    assert fill_xliff(tmp_path, WEBLATE) == expected


def test_version_2_is_filled(tmp_path: Path) -> None:
    state = 'state="translated" subState="transformer-cli:model"'
    expected = (
        STANDARD.replace('srcLang="en"', 'srcLang="en" trgLang="de"')
        .replace('<segment id="s1">', f'<segment id="s1" {state}>')
        .replace(
            "text.</source>",
            'text.</source>\n    <target>SOME <pc id="1" dataRefStart="d1">BOLD AND <ph id="2"/>'
            "</pc> TEXT.</target>",
        )
        .replace('"s3" state="initial"', f'"s3" {state}')
        .replace(
            "<target>alt",
            '<target>A <sc id="3"/>B<ec startRef="3"/> C<mrk id="m" translate="no">Xy</mrk>',
        )
    )
    assert fill_xliff(tmp_path, STANDARD) == expected


def test_notes_go_where_the_schemas_have_them(tmp_path: Path) -> None:
    for text, note in (
        (STANDARD, '<unit id="u1">\n   <notes><note>see &lt;1&gt;</note></notes><originalData>'),
        (WEBLATE, "</target><note>see &lt;1&gt;</note>"),
    ):
        document = read(tmp_path / "x.xliff", text)
        fillings = [Filling(segment.text, "memory", "see <1>") for segment in document.segments]
        written = document.write([fillings[0], *[None] * (len(fillings) - 1)]).decode()
        assert note in written
        assert "exact-match" in written or "transformer-cli:memory" in written


def test_translate_toolkit_reads_its_own_files_again(tmp_path: Path) -> None:
    store: Any = xliff.xlifffile(sourcelanguage="en", targetlanguage="de")
    store.addsourceunit("Open %s\nnow")
    unit = store.addsourceunit("x")
    inner = StringElem(["Click ", G(id="1", sub=["here"]), " and ", X(id="2"), "."])
    unit.rich_source = [inner]
    store.addsourceunit("done").target = "fertig"
    data, result = filled(tmp_path / "x.xlf", bytes(store), translating(reverse))
    assert result.summary() == [
        "filled 2 of 2 segments (1 with tags or accelerators placed by alignments)"
    ]
    again = type(store).parsestring(data)
    assert [unit.target for unit in again.units][::2] == ["%s Open\nnow", "fertig"]
    tags = r'<g id="1">here</g>|<x id="2"/>'
    assert len(re.findall(tags, data.decode())) == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_encodings_stay(tmp_path: Path, encoding: str) -> None:
    text = WEBLATE.replace("'utf-8'", f"'{encoding.removesuffix('-sig')}'").replace("Hello", "Äh")
    data, _ = filled(tmp_path / "x.xlf", text.encode(encoding), translating(lambda _: Line("ł")))
    assert etree.fromstring(data).findtext(".//{*}target") == "ł"
    assert "Äh".encode(encoding)[-2:] in data


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<a/>", r"x.xlf:1: not XLIFF 1.2 or 2.x: the outermost element is 'a'"),
        (STANDARD[:-20], r"x.xlf:\d+: invalid XML \(unclosed token\)"),
        (STANDARD.replace('"en"', '"fr"'), r"x.xlf:1: srcLang is 'fr', but the run translates"),
        (
            '<!DOCTYPE a [<!ENTITY b "c">]>' + STANDARD,
            r"x.xlf:1: the file uses its own entity 'b', which is not supported",
        ),
        ("<a>" * 200, "x.xlf:1: elements are nested more than 100 deep"),
    ],
)
def test_an_invalid_xliff_file_gives_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(tmp_path / "x.xlf", text)


def test_text_that_looks_like_a_tag_is_left(tmp_path: Path) -> None:
    text = WEBLATE.replace("R &amp; D", 'a &lt;g id="1"&gt; <g id="1">b</g>')
    data, result = filled(tmp_path / "x.xlf", text)
    assert b'<target state="new"/>' in data
    assert "has text that looks like one of its tags" in result.left[0]


def test_attributes_are_found_by_name_and_line_ends_read(tmp_path: Path) -> None:
    text = (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit>'
        "<source>a\r b</source>%s</trans-unit></body></file></xliff>"
    )
    target = """<target x=" state='q' " state="new"  />"""
    data, _ = filled(tmp_path / "x.xlf", text % target)
    written = """<target x=" state='q' " state="needs-review-translation" """
    written += """state-qualifier="mt-suggestion">A B</target>"""
    assert data.decode() == text % written


@pytest.mark.parametrize(
    "text",
    [
        '<xliff version="1.2"><file source-language="en" target-language="de"{}><body>'
        '<trans-unit id="a"><source>one\n two</source></trans-unit></body></file></xliff>',
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        '<trans-unit id="a"><source{}>one\n two</source></trans-unit></body></file></xliff>',
        '<xliff version="2.0" srcLang="en" trgLang="de"{}><file id="f"><unit id="u"><segment>'
        "<source>one\n two</source></segment></unit></file></xliff>",
        '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u"><segment>'
        "<source{}>one\n two</source></segment></unit></file></xliff>",
    ],
)
def test_line_breaks_stay_where_space_is_preserved(tmp_path: Path, text: str) -> None:
    assert ">ONE TWO</target>" in fill_xliff(tmp_path, text.format(""))
    assert "ONE\n" in fill_xliff(tmp_path, text.format(' xml:space="preserve"'))


FILE_1 = """<xliff version="1.2"><file source-language="en" target-language="de"><body>{}</body></file></xliff>"""
FILE_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f">{}</file></xliff>"""
STATE = ' state="needs-review-translation" state-qualifier="mt-suggestion"'
CUT = '<seg-source><mrk mtype="seg" mid="1">a b.</mrk> <mrk mtype="seg" mid="2">c <x id="1"/></mrk></seg-source>'


def fill_unit(tmp_path: Path, unit: str, form: str = FILE_1) -> tuple[str, list[str]]:
    """Return a unit filled with words in reverse order, and the list of unfilled text."""
    data, result = filled(tmp_path / "x.xlf", form.format(unit), translating(reverse))
    start, end = form.split("{}")
    return data.decode().removeprefix(start).removesuffix(end), result.left


@pytest.mark.parametrize(
    "target", ["<![CDATA[]]>", "<!-- x -->", "&#160;", '<g id="1"/>', '<g id="1"> </g>', "<?x?>"]
)
def test_a_target_without_text_is_filled(tmp_path: Path, target: str) -> None:
    unit = '<trans-unit id="a"><source><g id="1">a b</g></source><target{}>{}</target></trans-unit>'
    expected = unit.format(STATE, '<g id="1">b a</g>')
    assert fill_unit(tmp_path, unit.format("", target)) == (expected, [])
    unit = '<unit id="u"><segment{}><source><pc id="1">a b</pc></source><target>{}</target></segment></unit>'
    expected = unit.format(
        ' state="translated" subState="transformer-cli:model"', '<pc id="1">b a</pc>'
    )
    assert fill_unit(tmp_path, unit.format("", target.replace("g", "pc")), FILE_2) == (expected, [])


def test_a_target_with_the_tags_of_a_source_without_text_is_translated(tmp_path: Path) -> None:
    unit = (
        '<trans-unit id="a"><source><x id="1"/></source><target><x id="1"/></target></trans-unit>'
    )
    assert fill_unit(tmp_path, unit) == (unit, [])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            '<mrk mtype="seg" mid="1"/><mrk mtype="seg" mid="2"/>',
            '<mrk mtype="seg" mid="1">b. a</mrk> <mrk mtype="seg" mid="2">c <x id="1"/></mrk>',
        ),
        (
            '<mrk mtype="seg" mid="2">C<x id="1"/></mrk>-<mrk mtype="seg" mid="1"/>',
            '<mrk mtype="seg" mid="2">C<x id="1"/></mrk>-<mrk mtype="seg" mid="1">b. a</mrk>',
        ),
        (
            '<mrk mtype="seg" mid="1">A</mrk><mrk mtype="seg" mid="2"><x id="1"/></mrk>',
            '<mrk mtype="seg" mid="1">A</mrk><mrk mtype="seg" mid="2">c <x id="1"/></mrk>',
        ),
    ],
)
def test_empty_segments_of_a_target_are_filled(tmp_path: Path, target: str, expected: str) -> None:
    unit = f'<trans-unit id="a"><source>a</source>{CUT}<target{{}}>{{}}</target></trans-unit>'
    assert fill_unit(tmp_path, unit.format("", target)) == (unit.format(STATE, expected), [])
    # People's translations stay even if the state was never updated.
    new = ' state="new"'
    assert fill_unit(tmp_path, unit.format(new, target)) == (unit.format(STATE, expected), [])


def test_a_segment_that_a_target_lacks_is_reported(tmp_path: Path) -> None:
    target = '<target><mrk mtype="seg" mid="1">A</mrk></target>'
    unit = f'<trans-unit id="a"><source>a</source>{CUT}{target}</trans-unit>'
    written, left = fill_unit(tmp_path, unit)
    assert written == unit
    assert left == [f"{tmp_path}/x.xlf:1: its target has no mrk for some of its segments"]


NO, YES = ' translate="no"', ' translate="yes"'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ('a <sm id="1"{NO}/>b c<em startRef="1"/> d', '<sm id="1"{NO}/>b c<em startRef="1"/> d a'),
        (
            'a <mrk id="1"{NO}>b <mrk id="2"{YES}>c d</mrk> e</mrk>',
            '<mrk id="1"{NO}>b <mrk id="2"{YES}>d c</mrk> e</mrk> a',
        ),
        (
            'a <sm id="1"{NO}/>b <sm id="2"{YES}/>c d<em startRef="2"/> e<em startRef="1"/> f',
            'f <sm id="1"{NO}/>b <sm id="2"{YES}/>d c<em startRef="2"/> e<em startRef="1"/> a',
        ),
        (
            'a <mrk id="1"{NO}>b <pc id="2">c &amp; d</pc> e</mrk>',
            'a <mrk id="1"{NO}>b <pc id="2">c &amp; d</pc> e</mrk>',
        ),
        (
            'a <pc id="1"><sm id="2"{NO}/>b</pc>c d<em startRef="2"/> e f',
            'f <pc id="1"> e a<sm id="2"{NO}/>b</pc>c d<em startRef="2"/>',
        ),
    ],
)
def test_parts_that_must_not_be_translated_stay(tmp_path: Path, source: str, target: str) -> None:
    source, target = (text.format(NO=NO, YES=YES) for text in (source, target))
    written, left = fill_unit(
        tmp_path, f'<unit id="u"><segment><source>{source}</source></segment></unit>', FILE_2
    )
    assert f"<target>{target}</target>" in written
    assert left == []


@pytest.mark.parametrize("form", [FILE_1, FILE_2])
def test_translate_is_inherited_and_overridden(tmp_path: Path, form: str) -> None:
    unit = '<trans-unit id="{0}"{1}><source>a b</source></trans-unit>'
    if form is FILE_2:
        unit = '<unit id="{0}"{1}><segment><source>a b</source></segment></unit>'
    inner = unit.format(1, NO) + unit.format(2, YES) + unit.format(3, "")
    text = f'<group id="g"{NO}>{inner}<group id="h"{YES}>{unit.format(4, "")}</group></group>{unit.format(5, "")}'
    written, left = fill_unit(tmp_path, text, form)
    assert left == []
    found = etree.fromstring(form.format(written)).iter("trans-unit", "unit")
    assert [each.get("id") for each in found if each.find(".//target") is not None] == [
        "2",
        "4",
        "5",
    ]


def test_part_of_an_untranslated_unit_may_be_translated(tmp_path: Path) -> None:
    source = 'a <mrk id="1" translate="yes">b c</mrk> d'
    unit = f'<unit id="u"{NO}><segment{{}}><source>{source}</source>{{}}</segment></unit>'
    target = '<target>a <mrk id="1" translate="yes">c b</mrk> d</target>'
    state = ' state="translated" subState="transformer-cli:model"'
    assert fill_unit(tmp_path, unit.format("", ""), FILE_2)[0] == unit.format(state, target)
    source = '<g id="1">a <mrk mtype="protected">b <x id="2"/></mrk> c</g>'
    target = '<g id="1"><mrk mtype="protected">b <x id="2"/></mrk> c a</g>'
    unit = f'<trans-unit id="a"><source>{source}</source>{{}}</trans-unit>'
    expected = unit.format(f"<target{STATE}>{target}</target>")
    assert fill_unit(tmp_path, unit.format(""))[0] == expected


def test_untranslated_text_may_span_segments(tmp_path: Path) -> None:
    source = '<segment><source>a <sm id="1" translate="no"/>b</source>{}</segment><ignorable><source> </source></ignorable>'
    unit = f'<unit id="u">{source}<segment><source> c d<em startRef="1"/> e f</source>{{}}</segment></unit>'
    written, left = fill_unit(tmp_path, unit.format("", ""), FILE_2)
    assert '<target>a <sm id="1" translate="no"/>b</target>' in written
    assert '<target> c d<em startRef="1"/> f e</target>' in written
    assert left == []

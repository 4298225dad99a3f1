"""Terms found in sources and translations: by words, case folded, the longest first."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from transformer_cli.extensions.constraints.terms import Term, TermList, lost_terms, make_term


def terms(*rows: str) -> TermList:
    """Terms written as 'source = target|target'."""
    sides = (row.split(" = ") for row in rows)
    return TermList([make_term(src, tgt.split("|")) for src, tgt in sides])


def found(line: str, *rows: str) -> list[str]:
    return [line[each.start : each.end] for each in terms(*rows).find(line)]


def _find_lost(
    listed: TermList, line: str, translation: str, left_out: Sequence[tuple[int, int]] = ()
) -> tuple[int, list[Term]]:
    own = [each.term for each in listed.find(line, left_out)]
    return len(own), lost_terms(own, translation)


def test_terms_are_found_by_words_whatever_their_case() -> None:
    line = "_Datei öffnen: die DATEI, (Dateien) und Dateiname; file_datei"
    assert found(line, "datei = file") == ["Datei", "DATEI"]
    assert found(line, "Datei* = file") == ["Datei", "DATEI", "Dateien", "Dateiname"]
    assert found("Straße STRASSE", "strasse = street") == ["Straße", "STRASSE"]
    assert found("C++ und C, C + +", "C++ = C++") == ["C++", "C + +"]
    assert found("E-Mail-Adresse", "E-Mail = e-mail") == ["E-Mail"]
    assert found("a b", "b c = d") == []


def test_the_longest_term_wins_and_none_is_in_another() -> None:
    rows = ["Paket = package", "virtuelle* Paket* = virtual package", "das Paket = x"]
    assert found("Das virtuelle Paket", *rows) == ["virtuelle Paket"]
    assert found("Virtuell das Paket", *rows) == ["das Paket"]
    overlapping = ["a b = x", "b cc = y"]
    assert found("a b cc a b", *overlapping) == ["b cc", "a b"]
    # What is there word for word comes before what begins so.
    exact = terms("Paket* = parcel", "Paket = package")
    assert [each.term.target for each in exact.find("Paket Pakete")] == ["package", "parcel"]


def test_what_is_left_out_has_no_terms() -> None:
    line, listed = "<a b> b a b c", terms("a b = x", "b = y", "b a = z")
    assert [(each.start, each.end) for each in listed.find(line, [(0, 5)])] == [(6, 9), (10, 11)]
    assert _find_lost(listed, line, "z y", [(0, 5)]) == (2, [])
    assert listed.find(line, [(0, 5), (5, 13)]) == []


def test_characters_are_words_where_there_are_no_spaces() -> None:
    assert found("打开文件夹。", "文件 = file", "文件夹 = folder") == ["文件夹"]
    assert found("ファイルを開く", "ファイル = file") == ["ファイル"]
    assert found("फ़ाइलें", "फ़ाइल = file") == []


def test_a_term_is_kept_by_any_of_its_translations_as_often_as_it_is_there() -> None:
    listed = terms("Paket* = package|packages|bundle*", "Datei = file", "Ordner = file")
    line = "Datei im Paket, Pakete, Ordner"
    assert _find_lost(listed, line, "File in the Package, bundled, files")[0] == 4
    lost = _find_lost(listed, line, "File in the Package, bundled, files")[1]
    assert [term.source for term in lost] == [("ordner",)]
    assert _find_lost(listed, line, "package packages file file") == (4, [])
    assert _find_lost(listed, "nichts", "") == (0, [])


@pytest.mark.parametrize("source", ["", " ", "*", "**"])
def test_a_term_has_words(source: str) -> None:
    with pytest.raises(ValueError, match="no word"):
        make_term(source, ["x"])


def test_a_star_ends_a_word() -> None:
    with pytest.raises(ValueError, match="must be at the end of a word"):
        make_term("Pa*ket", ["x"])
    assert make_term("offene* Datei*", ["open* file*", "x"]).target == "open file"
    assert make_term("2 * 3", ["2 * 3"]).target == "2 * 3"


def test_a_star_behind_a_mark_ends_a_word() -> None:
    assert make_term("file*", ["फ़ाइलि*"]).target == "फ़ाइलि"
    # A sign behind a word is none of its marks.
    assert TermList([make_term("फ़ाइल", ["file"])]).find("फ़ाइल।")


_WORDS = st.lists(st.sampled_from(["a", "b", "ab", "A", "ß", "-", ".", "_", "文"]), min_size=1)


@given(st.lists(st.tuples(_WORDS, _WORDS), max_size=8), _WORDS, st.sampled_from(["", " "]))
def test_found_terms_are_apart_in_order_and_kept_by_their_targets(
    rows: list[tuple[list[str], list[str]]], line: list[str], space: str
) -> None:
    listed = TermList([make_term(space.join(src), [" ".join(tgt)]) for src, tgt in rows])
    text = space.join(line)
    each = listed.find(text)
    assert all(one.end <= other.start for one, other in pairwise(each))
    for one in each:
        own = listed.find(text[one.start : one.end])
        assert [other.term for other in own] == [one.term]
    of_line = [one.term for one in each]
    assert lost_terms(of_line, " ".join(term.target for term in of_line)) == []
    assert lost_terms(of_line, "") == of_line

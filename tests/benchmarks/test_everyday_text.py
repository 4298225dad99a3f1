"""What is paired, and that what is held out shares nothing with what is trained on."""

from benchmarks.everyday_text import _STANZA, HelpPage, Pair, draw_test, pair_sentences

DE = """\
 Ein Spiel. Es ist frei.
 Es hat zwei
 Zeilen:
  * Punkt eins
    geht weiter
  * Punkt zwei
 .
 Kurz, aber lang.
"""
EN = """\
 A game. It is free. It has
 two lines:
  * item one goes on
  * item two
 .
 Short. But long.
"""


def test_paragraphs_items_and_as_many_sentences_are_pairs() -> None:
    assert list(pair_sentences(DE, EN)) == [
        ("Ein Spiel.", "A game."),
        ("Es ist frei.", "It is free."),
        ("Es hat zwei Zeilen:", "It has two lines:"),
        ("Punkt eins geht weiter", "item one goes on"),
        ("Punkt zwei", "item two"),
        ("Kurz, aber lang.", "Short. But long."),
    ]


def test_texts_of_other_numbers_of_paragraphs_are_none() -> None:
    assert list(pair_sentences(DE, " A game.\n")) == []


def test_a_list_of_descriptions() -> None:
    text = "Package: a-data\nDescription-md5: 0f\nDescription-de: Kurz\n Lang\n .\n Mehr\n\n"
    assert [stanza.groups() for stanza in _STANZA.finditer(f"{text}Package: b\n")] == [
        ("a-data", "0f", "Kurz", " Lang\n .\n Mehr\n")
    ]


def test_a_page_of_help() -> None:
    page = '<p id="x">no</p><h1 id="hd_id1"><a name="a"></a>Head &amp; tail</h1>\n<br>between'
    page += '<p id="par_id2">Click\n<span>here</span>.</p><p id="par_id2">again</p>'
    assert HelpPage(page).texts == {"hd_id1": "Head & tail", "par_id2": "Click here."}


def test_the_test_is_of_origins_and_sides_of_its_own() -> None:
    pairs = [Pair(f"{n % 100}", f"Satz {n}", f"sentence {n}") for n in range(10_000)]
    pairs += [Pair("same", "OK", "ok"), Pair("other", "Satz 1", "another")]
    known = {"satz 1", "sentence 2"}
    test, rest = draw_test(pairs, known)
    assert len(test) == 1000
    assert not {pair.origin for pair in test} & {pair.origin for pair in rest}
    assert not any(pair.sides() & known or len(pair.sides()) < 2 for pair in test)
    assert draw_test(pairs, known) == (test, rest)

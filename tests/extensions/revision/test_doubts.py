"""Doubtful translations: how they are found, the second search, and the text written instead."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from cli.conftest import Training
from cli.process import run
from inference.translators import ByBeam, random_translator, translate_stream, words_translator

from transformer_cli.cli.declaring import CommandOptions
from transformer_cli.config.data_schema import FilesData
from transformer_cli.extensions.revision.doubts import (
    DoubtFinder,
    Doubts,
    doubt_of,
    is_copy,
    may_copy,
)
from transformer_cli.extensions.revision.lost_numbers import loses_addresses, loses_numbers
from transformer_cli.extensions.revision.options import RevisionOptions
from transformer_cli.inference.search import likeliest
from transformer_cli.inference.translation import Translation

FILES = {"src": "a", "tgt": "b"}


@pytest.mark.parametrize(
    ("src", "tgt", "doubt"),
    [
        ("Das Auto ist rot.", "The car of the car of the car of the car of", "repeats itself"),
        ("Er sagt nichts.", "He says nothing nothing nothing nothing.", "repeats itself"),
        ("Wir essen Reis.", "我们吃米饭吃米饭吃米饭吃米饭", "repeats itself"),
        ("sehr, sehr, sehr, sehr gut", "very, very, very, very good", ""),
        ("Ha ha ha!", "Ha ha ha ha!", ""),
        ("Er lacht.", "He laughs hahahahaha.", "repeats itself"),
        ("Er friert.", "Heeeeeee", "repeats itself"),
        ("Ha, ha, ha, sagt er.", "Hahahahaha, he says.", ""),
        ("Solar energy is clean.", "Die Sonnenenergie ist die Energie, die rein ist.", ""),
        ("Solar energy", "Sonnenenergie", ""),
        ("%s, %s, %s und %s", "%s, %s, %s, %s", ""),
        ("Inhalt .................... 3", "Contents .................... 3", ""),
        ("Ja.", "Yes, of course I will be there at eight o'clock.", "too long"),
        ("Ich komme morgen, wenn das Wetter schön ist.", "I", "too short"),
        ("Ich komme morgen, wenn das Wetter schön ist.", "", "too short"),
        ("Ja.", "Yes, of course.", ""),
        ("Ein Mann fährt mit dem Rad.", "Ein Mann fährt mit dem Rad.", "source copied"),
        ("GNU General Public", "GNU General Public", ""),
        ("Ein Mann mit 🎉 tanzt.", "A man with \ufffd is dancing.", "has a broken character"),
        ("Ein Mann mit \ufffd tanzt.", "A man with \ufffd is dancing.", ""),
        ("Die Katze schläft.", "Кошка спит.", "in Cyrillic letters"),
        ("«Кошка спит.»", "Кошка спит.", ""),
        (
            "我喜欢在周末和朋友一起去公园散步。",
            "I like to go for a walk in the park at weekends.",
            "",
        ),
        ("", "anything at all, however long it may be", ""),
    ],
)
def test_doubtful_translations_are_found(src: str, tgt: str, doubt: str) -> None:
    language = "zh" if "米" in tgt else "en"
    assert DoubtFinder(language).find(src, tgt) == doubt


@pytest.mark.parametrize(
    ("src", "tgt", "loses"),
    [
        ("Er zahlt 1.000 Euro.", "He pays 1,000 euros.", False),
        ("Er zahlt 1.000 Euro.", "He pays 100 euros.", True),
        ("Es kostet 15 Euro.", "It is cheap.", True),
        ("Er hat 3 Hunde.", "He has three dogs.", False),
        ("um 15 Uhr", "at 3 pm", False),
        ("siehe https://example.org/2026", "see the page", False),
        ("ohne", "of 2026", False),
        ("١٥ درهما", "15 dirhams", False),
    ],
)
def test_a_number_that_is_spelled_out_is_not_lost(src: str, tgt: str, loses: bool) -> None:
    assert loses_numbers(src, tgt) == loses


@pytest.mark.parametrize(
    ("tgt", "loses"),
    [
        ("See https://example.org/a?b=1, or ask me@example.org.", False),
        ("See https://example.org/a?b, or ask me@example.org.", True),
        ("See https://example.org/a?b=1.", True),
        ("See https://EXAMPLE.org/a?b=1/, or ask Me@example.org.", False),
        ("See https://example.org/a?b=12, or ask me@example.org.", True),
    ],
)
def test_lost_addresses_are_found(tgt: str, loses: bool) -> None:
    src = "Siehe https://example.org/a?b=1 oder frag me@example.org."
    assert loses_addresses(src, tgt) == loses


def test_punctuation_after_an_address_is_not_lost() -> None:
    assert not loses_addresses("请访问 https://example.org。", "Visit https://example.org.")


def test_a_short_line_is_no_copy() -> None:
    assert is_copy("Ein Mann fährt mit dem Rad.", " Ein Mann fährt mit dem Rad. ")
    line = "GNU General Public <https://www.gnu.org/licenses>"
    assert not is_copy(line, line)


def doubting(translator: Any, **settings: Any) -> Any:
    """Return a translator that searches again for doubtful lines."""
    doubts = Doubts(DoubtFinder("en", may_copy(translator)), **settings)
    return replace(translator, revisers=(doubts,))


def translated(engine: ByBeam, is_raw: bool = False, **options: Any) -> list[tuple[str, str]]:
    translator: Any = replace(words_translator(), engine=cast(Any, engine))
    translator = doubting(translator, is_raw=is_raw)
    found = translate_stream(translator, ["c d e", "a a a a"], **options)
    return [(best.text, doubt_of(best)) for best, *_ in found]


def test_a_doubtful_line_is_searched_again_with_a_wider_beam() -> None:
    engine = ByBeam([4] * 5, [[4] * 4, [5], [6]])
    repeated = "a a a a a"
    found = translated(engine)
    assert found == [("b", ""), (repeated, "")]
    assert engine.asked == [(2, 1), (1, 8)]


def test_results_of_a_second_search_are_reported() -> None:
    engine: Any = ByBeam([4] * 5, [[4] * 4, [5], [6]])
    translator = doubting(replace(words_translator(), engine=engine))
    found = translate_stream(translator, ["c d e", "a a a a"])
    assert [best.remark for best, *_ in found] == ["fixed by a second search", ""]


def test_without_a_better_one_the_first_stays_and_is_reported() -> None:
    assert translated(ByBeam([4] * 5, [[4] * 4, [6] * 4])) == [
        ("a a a a a", "repeats itself"),
        ("a a a a a", ""),
    ]


def test_the_n_best_are_as_the_model_says() -> None:
    engine = ByBeam([4] * 5, [[5]])
    first, _ = translated(engine, is_raw=True, n_best=1)
    assert first == ("a a a a a", "repeats itself")
    assert engine.asked == [(2, 1)]


def test_samples_are_not_searched_again() -> None:
    translator = replace(random_translator([5]), sampler=lambda _: likeliest(1))
    assert doubting(translator).translate(["5 6"]) == translator.translate(["5 6"])


def test_the_line_itself_may_be_written_instead() -> None:
    engine: Any = ByBeam([4] * 5, [[4] * 4])
    translator = doubting(replace(words_translator(), engine=engine), falls_back=True)
    assert translator.translate(["c d e"]) == ["c d e"]


@pytest.mark.parametrize(
    ("languages", "copied", "doubt"),
    [
        (("de", "en"), False, "source copied"),
        (("de", "en"), True, ""),
        (("pt-BR", "pt-PT"), False, ""),
        (("nb", "nn"), False, ""),
        (("de", "de"), False, ""),
    ],
)
def test_a_copy_is_doubtful_only_if_unexpected(
    languages: tuple[str, str], copied: bool, doubt: str
) -> None:
    translator: Any = words_translator()
    values = {"kind": "files", "train": FILES, "val": FILES}
    values |= dict(zip(("src_lang", "tgt_lang"), languages, strict=True))
    data = FilesData.model_validate(values)
    config = translator.config.model_copy(update={"data": data})
    tokenizers = replace(translator.tokenizers, copied=copied)
    translator = replace(translator, config=config, tokenizers=tokenizers)
    line = "o homem anda de bicicleta"
    (doubts,) = RevisionOptions().prepare(translator, CommandOptions()).revisers
    assert doubts.finder.find(line, line) == doubt


@pytest.mark.parametrize(
    ("is_raw", "lost"), [(False, ["lines 2, 3"]), (True, ["lines 2, 3"])], ids=str
)
def test_tabs_that_are_kept_are_not_lost(is_raw: bool, lost: list[str]) -> None:
    notes = Doubts(DoubtFinder("en"), is_raw=is_raw).notes()
    texts = {"12\t13": "12\t13", "a\tb": "a b", "c\td": "c d c d", "\te ": "e"}
    for number, (src, tgt) in enumerate(texts.items(), start=1):
        list(notes.look(number, src, [Translation(tgt)]))
    told = [message.partition("; ")[2] for message in notes.summary(4) if "tabs" in message]
    assert told == lost


def test_lost_tabs_and_numbers_are_reported(training: Training, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("1 2 3 4\n1 2\t2024-01-05\n2 in 1999 3\n\t1 2\n3 in me@example.org 4\n")
    finished = run("translate", training.run, "-i", source)
    assert finished.out.count("\n") == 5
    assert "2 of 5 lines: numbers of the source are missing; lines 2, 3\n" in finished.err
    assert (
        "1 of 5 lines: URLs or e-mail addresses of the source are missing; line 5" in finished.err
    )
    assert "1 of 5 lines: tabs are lost" in finished.err

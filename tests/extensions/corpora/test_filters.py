"""What each filter rejects, and what it keeps."""

import sys

import numpy as np
import pytest

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.sections import setting
from transformer_cli.extensions.checks.rules import (
    FILTER_NAMES,
    FilterPass,
    FilterSettings,
    OutlierFilter,
    PairFilter,
    RepeatFilter,
    build_filters,
)
from transformer_cli.extensions.corpora.deciding import Filtering, decide, judge

DE_EN = FilterSettings(kind="corpus", src_lang="de", tgt_lang="en")


def pair_filter(name: str) -> PairFilter:
    found = build_filters([name], DE_EN)[-1]
    assert isinstance(found, PairFilter)
    assert found.name == name
    return found


def test_filters_are_built_in_the_order_of_the_schema_and_blank_always() -> None:
    assert [each.name for each in build_filters(FILTER_NAMES[::-1], DE_EN)] == [*FILTER_NAMES]
    assert [each.name for each in build_filters(["numbers"], DE_EN)] == ["blank", "numbers"]


REJECTED: dict[str, list[tuple[str, str]]] = {
    "blank": [("", "A dog."), ("Ein Hund.", " \u3000\t"), ("\u200b", "A dog.")],
    "encoding": [
        ("Zwei junge weiÃŸe MÃ¤nner.", "Two young white men."),
        ("Ein\ufffd Hund.", "A dog."),
        ("Ein Hund.", "A\x08 dog."),
        ("M\u00c3\u00a4nner\u0080", "Men"),
        ("a\rb", "itâ€™s"),
        ("Ð¡Ð¾Ð±Ð°ÐºÐ°", "dog"),
        ("privat \ue001", "private"),
    ],
    "identical": [("A man gets a tattoo on his back.", " A man gets a tattoo on his back. ")],
    "script": [("Мужчина бежит", "A man runs"), ("Ein Mann läuft", "Ένας άντρας runs")],
    "markup": [
        ("Datei %s fehlt", "file missing"),
        ("<b>fett</b>", "bold"),
        ("{name} ist da", "{user} is here"),
        ("siehe https://example.org", "see there"),
        ("%d von %d", "%d of them"),
        ("Schreiben Sie an info@example.org", "Write to us"),
    ],
    "numbers": [
        ("3 Männer", "5 men"),
        ("Im Jahr 1987", "In the year"),
        ("1.000 Euro", "10,000 euros"),
        ("um 14:30 Uhr", "at 3:30 pm"),
    ],
    "language": [
        ("Une jeune fille se repose près de la rivière.", "A girl rests near the river."),
        ("Eine Frau ruht sich aus.", "Eine Frau ruht sich am Ufer des Flusses aus."),
        ("A WOMAN IS RESTING AT THE RIVER.", "A woman is resting at the river."),
    ],
    "language_short": [("Zugriff verweigert", "Zugriff verweigert")],
}
KEPT: dict[str, list[tuple[str, str]]] = {
    "blank": [("-", "-")],
    "encoding": [
        ("„Zwei“ weiße Männer – 20 €, ½ Âge", "“Two” white men – €20"),
        ("Spalte\tZeile", "column\trow"),
        ("Ein Hund & eine Katze; 5 € für «AMANHÃ»", "“SERÁ AMANHÔ., S&P; x&y"),
        ("می‌خواهم 👩‍🚒", "â und Â und Ã"),
        ("weiche\u00adTrennung, नमस्\u200dते", "soft hyphen"),
    ],
    "identical": [
        ("OK", "OK"),
        ("Johann Sebastian Bach", "Johann Sebastian Bach"),
        ("https://example.org/a/very/long/address", "https://example.org/a/very/long/address"),
        ("123 456 789 012 345 678 901", "123 456 789 012 345 678 901"),
    ],
    "script": [
        ("Der Buchstabe α und die Stadt Москва", "the letter α, the city Москва"),
        ("5", "5"),
    ],
    "markup": [
        ("%2$s von %1$s ist 100% sicher", "%s of %s is 100% safe"),
        ("cat <Datei>", "cat <file>"),
        ("siehe https://de.example.org", "see https://example.org"),
        ("%5.2f MB, 100%ige Sicherheit", "%.1f MB, 100% safety"),
        ("zu <br/>Ende", "the <BR>end"),
        ("Fragen und Antworten: info@example.org", "Q&A: info@example.org"),
    ],
    "numbers": [
        ("1.000 Männer, 3,5 km, 12 345 kg", "1000 men, 3.5 km, 12,345 kg"),
        ("Die 3 Männer", "The three men"),
        ("Der 1. und der 02.", "The 1st and the 2nd"),
        ("um 15 Uhr, um 16:30", "at 3:00 pm, at 4.30 p.m."),
        ("um 3 Uhr nachmittags", "at 3 p.m."),
        ("um drei Uhr nachmittags", "at 3 p.m."),
        ("hundert", "100"),
        ("%1$s von %2$s", "%s of %s"),
        ("٣٤ Seiten", "34 pages"),
    ],
    "language": [
        ("Eine Broadway-Show beim Finale.", "An asian man grills meat."),
        ("Download Manager", "Download-Manager"),
        ("OK", "Zugriff verweigert"),
    ],
    "language_short": [("OK", "OK"), ("Zwei Fans", "Two fans"), ("Menü", "Menu")],
}


@pytest.mark.parametrize("name", REJECTED)
def test_pairs_that_a_filter_rejects_and_keeps(name: str) -> None:
    rejects = pair_filter(name).rejects
    assert [pair for pair in REJECTED[name] if not rejects(*pair)] == []
    assert [pair for pair in KEPT[name] if rejects(*pair)] == []
    assert [(tgt, src) for src, tgt in KEPT["blank"] if rejects(tgt, src)] == []


def test_filters_have_their_parameters_whatever_the_data_is() -> None:
    class Settings(FilterSettings):
        most: int = setting(3, "a parameter")

    toy = Settings.of(ToyData(kind="toy", src_lang="en", tgt_lang="de"))
    assert (toy.src_lang, toy.tgt_lang, toy.most) == ("en", "de", 3)
    assert Settings.of(toy.model_copy(update={"most": 5})).most == 5


def test_a_language_that_is_not_known_is_not_judged() -> None:
    settings = FilterSettings(kind="corpus", src_lang="tlh", tgt_lang="qya")
    for name in ("script", "language"):
        (_, each) = build_filters([name], settings)
        assert isinstance(each, PairFilter)
        assert not each.rejects("Мужчина бежит быстро по дороге", "Мужчина бежит быстро по дороге")


@pytest.mark.parametrize(
    ("name", "like", "unlike"),
    [
        ("duplicates", ("Ein Hund.", "A dog."), ("Ein Hund!", "A dog.")),
        ("duplicates_folded", ("2. EIN  HUND!", "- a dog 7"), ("Ein Hund.", "The dog.")),
        ("duplicates_folded", ("Ein Hund", "A dog"), ("Ein\nHund A", "dog")),
    ],
)
def test_pairs_that_count_as_the_same(
    name: str, like: tuple[str, str], unlike: tuple[str, str]
) -> None:
    (_, each) = build_filters([name], DE_EN)
    assert isinstance(each, RepeatFilter)
    key = each.key("Ein Hund.", "A dog.")
    assert each.key(*like) == key
    assert each.key(*unlike) != key


def test_folding_keeps_what_makes_lines_differ() -> None:
    (_, each) = build_filters(["duplicates_folded"], DE_EN)
    assert isinstance(each, RepeatFilter)
    assert each.key("12", "12") != each.key("13", "13")
    assert each.key("की", "of") != each.key("का", "of")  # they differ in a vowel sign


@pytest.mark.parametrize("name", ["length", "length_ratio"])
def test_lengths_are_judged_by_the_corpus_itself(name: str) -> None:
    (_, each) = build_filters([name], DE_EN)
    assert isinstance(each, OutlierFilter)
    draw = np.random.default_rng(1)
    words = draw.integers(4, 20, 2000)
    pairs = [("x" * (6 * n + int(draw.integers(9))), "y" * (5 * n)) for n in words]
    measures = np.array([each.measure(*pair) for pair in pairs])
    assert each.find(measures).mean() < 0.001  # percentiles would reject their share
    odd = [("x" * 4000, "y" * 4000)] if name == "length" else [("x" * 300, "yy"), ("xx", "y" * 300)]
    with_odd = np.append(measures, [each.measure(*pair) for pair in odd])
    assert each.find(with_odd)[-len(odd) :].all()
    assert not each.find(np.full(50, measures[0])).any()
    assert each.find(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("name", "package"),
    [("language", "py3langid"), ("language_short", "py3langid")],
)
def test_a_package_that_is_missing_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(MissingExtraError, match=f"filter '{name}': needs the package {package}"):
        build_filters([name], DE_EN)


def test_filters_that_judge_alone_agree_with_a_corpus_filtered_by_each() -> None:
    pairs = [("", "a"), ("a b", "c"), ("a b", "c"), ("да да да", "yes"), ("", "a"), ("a b", "c")]
    names: list[str] = ["script", "length_ratio", "duplicates"]
    both = FilterPass(build_filters(names, DE_EN))
    both.add(pairs)
    masks = list(both.rejected())
    for place, name in enumerate(names, start=1):
        active = frozenset[str](("blank", name))
        filtering = Filtering((name,), (DE_EN), (active,), with_sides=False)
        reasons = decide(filtering, judge(filtering, 0, pairs), np.zeros(len(pairs), np.int32))
        assert masks[place].tolist() == (reasons == 1).tolist()
    assert both.details[0] == {0: "source", 4: "source"}
    assert both.details[1] == {3: "source: Cyrillic"}

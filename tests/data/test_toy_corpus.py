import importlib.util
import itertools
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

TOY = Path(__file__).parents[2] / "data" / "toy"
SPLITS = {"train": 4000, "val": 200, "test": 200}
LANGUAGES = ("de", "en")


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_toy", TOY / "make_toy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


toy = _load_script()
A, THE, TWO, THREE = (getattr(toy.Determiner, name) for name in ("A", "THE", "TWO", "THREE"))
THE_PLURAL, NONE_PLURAL = toy.Determiner.THE_PLURAL, toy.Determiner.NONE_PLURAL
VERBS = {verb.en: verb for verb in (*toy.INTRANSITIVE, *toy.TRANSITIVE, *toy.WITH_DATIVE)}


def lines(split: str, language: str) -> list[str]:
    text = (TOY / f"{split}.{language}").read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


def word_counts(split: str, language: str) -> Counter[str]:
    return Counter(word for line in lines(split, language) for word in re.findall(r"\w+", line))


# --- the committed files --------------------------------------------------------------------------


@pytest.mark.long
def test_the_script_writes_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    toy.write_splits(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    names = {f"{split}.{language}" for split in SPLITS for language in LANGUAGES}
    assert written == {name: (TOY / name).read_bytes() for name in names}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("split", "size"), SPLITS.items())
def test_every_split_has_its_size_on_both_sides(split: str, size: int, language: str) -> None:
    assert len(lines(split, language)) == size


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_comes_twice_in_or_across_splits(language: str) -> None:
    sentences = list(itertools.chain.from_iterable(lines(split, language) for split in SPLITS))
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_cased_punctuated_and_of_fair_length(language: str) -> None:
    for split in SPLITS:
        for line in lines(split, language):
            assert re.fullmatch(r"[A-ZÄÖÜ][\w, ]+\.", line), line
            assert "  " not in line
            assert not re.search(r" ,|,[^ ]|,\.", line), line
            assert 4 <= len(line.split()) <= 18, line


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_val_and_test_are_in_train_at_least_five_times(language: str) -> None:
    in_train = word_counts("train", language)
    held_out = word_counts("val", language) | word_counts("test", language)
    assert {word: in_train[word] for word in held_out if in_train[word] < 5} == {}


def test_vocabularies_stay_small() -> None:
    assert 200 <= len(word_counts("train", "de")) <= 250
    assert 130 <= len(word_counts("train", "en")) <= 200


def test_files_stay_under_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in TOY.iterdir() if path.is_file()) < 1_000_000


# --- the grammar ----------------------------------------------------------------------------------


@pytest.mark.long
def test_each_sentence_has_one_translation_in_each_direction() -> None:
    """Over sentences of other seeds too, where no filter could hide an ambiguity."""
    drawn = {pair for seed in (1, 2) for pair in itertools.islice(toy.Writer(seed).pairs(), 15_000)}
    assert len({pair.de for pair in drawn}) == len(drawn)
    assert len({pair.en for pair in drawn}) == len(drawn)


def test_another_seed_writes_other_sentences() -> None:
    one, other = ([*itertools.islice(toy.Writer(seed).pairs(), 20)] for seed in (1, 2))
    assert one != other


@pytest.mark.parametrize(
    ("determiner", "adjective", "noun", "nominative", "accusative", "dative", "english"),
    [
        (A, "OLD", "MAN", "ein alter Mann", "einen alten Mann", "einem alten Mann", "an old man"),
        (A, "TIRED", "WOMAN", "eine müde Frau", "eine müde Frau", "einer müden Frau",
         "a tired woman"),
        (A, "NEW", "HOUSE", "ein neues Haus", "ein neues Haus", "einem neuen Haus", "a new house"),
        (THE, "RED", "HAT", "der rote Hut", "den roten Hut", "dem roten Hut", "the red hat"),
        (THE, "BIG", "CAT", "die große Katze", "die große Katze", "der großen Katze",
         "the big cat"),
        (THE, "SMALL", "GIRL", "das kleine Mädchen", "das kleine Mädchen", "dem kleinen Mädchen",
         "the small girl"),
        (THE, None, "BOY", "der Junge", "den Jungen", "dem Jungen", "the boy"),
        (A, None, "APPLE", "ein Apfel", "einen Apfel", "einem Apfel", "an apple"),
        (TWO, "WHITE", "DOG", "zwei weiße Hunde", "zwei weiße Hunde", "zwei weißen Hunden",
         "two white dogs"),
        (THREE, None, "CAR", "drei Autos", "drei Autos", "drei Autos", "three cars"),
        (THE_PLURAL, "YOUNG", "WOMAN", "die jungen Frauen", "die jungen Frauen",
         "den jungen Frauen", "the young women"),
        (NONE_PLURAL, "BLUE", "COAT", "blaue Mäntel", "blaue Mäntel", "blauen Mänteln",
         "blue coats"),
        (TWO, None, "EGG", "zwei Eier", "zwei Eier", "zwei Eiern", "two eggs"),
    ],
)  # fmt: skip
def test_phrases_agree_in_gender_number_and_case(
    determiner: object,
    adjective: str | None,
    noun: str,
    nominative: str,
    accusative: str,
    dative: str,
    english: str,
) -> None:
    described = getattr(toy, adjective) if adjective else None
    phrase = toy.Phrase(determiner, getattr(toy, noun), described)
    assert [phrase.german(case) for case in toy.Case] == [nominative, accusative, dative]
    assert phrase.english() == english


def test_a_definite_place_contracts_with_its_preposition() -> None:
    assert toy.place(toy.IN, toy.Phrase(THE, toy.PARK)) == ("im Park", "in the park")
    assert toy.place(toy.AT, toy.Phrase(THE, toy.BEACH)) == ("am Strand", "at the beach")
    assert toy.place(toy.IN, toy.Phrase(A, toy.PARK)) == ("in einem Park", "in a park")
    assert toy.place(toy.ON, toy.Phrase(THE, toy.BENCH)) == ("auf der Bank", "on the bench")


def test_places_take_the_dative_plural() -> None:
    dogs = toy.alone(toy.Phrase(TWO, toy.DOG))
    where = toy.place(toy.BETWEEN, toy.Phrase(TWO, toy.HOUSE, toy.OLD))
    assert toy.plain(toy.clause(dogs, VERBS["sleeping"], where=where)) == (
        "Zwei Hunde schlafen zwischen zwei alten Häusern.",
        "Two dogs are sleeping between two old houses.",
    )


def test_german_says_where_before_what() -> None:
    man = toy.alone(toy.Phrase(A, toy.MAN))
    park = toy.place(toy.IN, toy.Phrase(THE, toy.PARK))
    assert toy.plain(toy.clause(man, toy.READ, toy.Phrase(A, toy.BOOK), where=park)) == (
        "Ein Mann liest im Park ein Buch.",
        "A man is reading a book in the park.",
    )


def test_separable_verbs_part_in_main_clauses() -> None:
    man = toy.alone(toy.Phrase(A, toy.MAN))
    assert toy.plain(toy.clause(man, toy.PICK_UP, toy.Phrase(THE, toy.BALL))) == (
        "Ein Mann hebt den Ball auf.",
        "A man is picking up the ball.",
    )
    women = toy.alone(toy.Phrase(THE_PLURAL, toy.WOMAN))
    assert toy.plain(toy.clause(women, VERBS["watching"], toy.Phrase(A, toy.CHILD))) == (
        "Die Frauen sehen einem Kind zu.",
        "The women are watching a child.",
    )


def test_separable_verbs_are_one_word_at_the_end_of_subordinate_clauses() -> None:
    girl = toy.clause(toy.alone(toy.Phrase(THE, toy.GIRL)), toy.LAUGH)
    boys = toy.alone(toy.Phrase(THREE, toy.BOY))
    closing = toy.clause(boys, toy.CLOSE, toy.Phrase(A, toy.DOOR, toy.GREEN))
    assert toy.because(girl, closing) == (
        "Das Mädchen lacht, weil drei Jungen eine grüne Tür zumachen.",
        "The girl is laughing because three boys are closing a green door.",
    )


def test_a_clause_in_front_turns_subject_and_verb() -> None:
    dog = toy.clause(toy.alone(toy.Phrase(A, toy.DOG)), VERBS["sleeping"])
    woman = toy.alone(toy.Phrase(A, toy.WOMAN))
    dressing = toy.clause(woman, toy.PUT_ON, toy.Phrase(A, toy.JACKET, toy.RED))
    assert toy.during_first(dog, dressing) == (
        "Während ein Hund schläft, zieht eine Frau eine rote Jacke an.",
        "While a dog is sleeping, a woman is putting on a red jacket.",
    )
    assert toy.during(dressing, dog) == (
        "Eine Frau zieht eine rote Jacke an, während ein Hund schläft.",
        "A woman is putting on a red jacket while a dog is sleeping.",
    )


def test_a_place_in_front_turns_subject_and_verb() -> None:
    children = toy.clause(toy.alone(toy.Phrase(TWO, toy.CHILD)), VERBS["playing"])
    where = toy.place(toy.IN_FRONT_OF, toy.Phrase(A, toy.CHURCH, toy.OLD))
    assert toy.place_first(where, children) == (
        "Vor einer alten Kirche spielen zwei Kinder.",
        "In front of an old church, two children are playing.",
    )


@pytest.mark.parametrize(
    ("determiner", "person", "thing", "german", "english"),
    [
        (A, "MAN", A, "Ein Mann, der einen roten Hut trägt, lacht.",
         "A man who is wearing a red hat is laughing."),
        (A, "WOMAN", A, "Eine Frau, die einen roten Hut trägt, lacht.",
         "A woman who is wearing a red hat is laughing."),
        (THE, "GIRL", A, "Das Mädchen, das einen roten Hut trägt, lacht.",
         "The girl who is wearing a red hat is laughing."),
        (TWO, "MAN", NONE_PLURAL, "Zwei Männer, die rote Hüte tragen, lachen.",
         "Two men who are wearing red hats are laughing."),
    ],
)  # fmt: skip
def test_relative_pronouns_agree_and_put_the_verb_last(
    determiner: object, person: str, thing: object, german: str, english: str
) -> None:
    hat = toy.Phrase(thing, toy.HAT, toy.RED)
    subject = toy.who(toy.Phrase(determiner, getattr(toy, person)), toy.WEAR, hat)
    assert toy.plain(toy.clause(subject, toy.LAUGH)) == (german, english)


def test_two_subjects_make_a_plural() -> None:
    subject = toy.both(toy.Phrase(A, toy.MAN, toy.OLD), toy.Phrase(A, toy.WOMAN))
    where = toy.place(toy.UNDER, toy.Phrase(A, toy.TREE, toy.BIG))
    assert toy.plain(toy.clause(subject, VERBS["dancing"], where=where)) == (
        "Ein alter Mann und eine Frau tanzen unter einem großen Baum.",
        "An old man and a woman are dancing under a big tree.",
    )


def test_belongings_take_the_dative() -> None:
    subject = toy.having(
        toy.Phrase(THE_PLURAL, toy.CHILD), toy.Phrase(NONE_PLURAL, toy.HAT, toy.RED)
    )
    where = toy.place(toy.NEXT_TO, toy.Phrase(THE, toy.BOY))
    assert toy.plain(toy.clause(subject, toy.WAIT, where=where)) == (
        "Die Kinder mit roten Hüten warten neben dem Jungen.",
        "The children with red hats are waiting next to the boy.",
    )


def test_giving_takes_dative_then_accusative() -> None:
    giving = toy.clause(
        toy.alone(toy.Phrase(THE, toy.WOMAN)),
        toy.GIVE,
        toy.Phrase(A, toy.APPLE),
        recipient=toy.Phrase(THE, toy.CHILD),
    )
    assert toy.plain(giving) == (
        "Die Frau gibt dem Kind einen Apfel.",
        "The woman is giving the child an apple.",
    )


def test_helping_takes_the_dative() -> None:
    boy = toy.alone(toy.Phrase(A, toy.BOY))
    helping = toy.clause(boy, VERBS["helping"], toy.Phrase(A, toy.WOMAN, toy.OLD))
    assert toy.plain(helping) == (
        "Ein Junge hilft einer alten Frau.",
        "A boy is helping an old woman.",
    )


def test_predicate_adjectives_do_not_inflect() -> None:
    balls = toy.Phrase(THE_PLURAL, toy.BALL, toy.BIG)
    assert toy.plain(toy.being(balls, toy.RED)) == (
        "Die großen Bälle sind rot.",
        "The big balls are red.",
    )
    waiting = toy.clause(toy.alone(toy.Phrase(A, toy.MAN)), toy.WAIT)
    assert toy.because(waiting, toy.being(toy.Phrase(THE, toy.CHILD), toy.TIRED)) == (
        "Ein Mann wartet, weil das Kind müde ist.",
        "A man is waiting because the child is tired.",
    )

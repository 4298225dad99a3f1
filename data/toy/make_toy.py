"""Make the toy captions: German and English sentences that a small grammar builds side by side.

``python data/toy/make_toy.py`` writes train, val and test (.de and .en) beside this file, the same
bytes each time. Read from the top: inflection, lexicon, clauses, sentence patterns, splits.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")

SEED = 30
SIZES = {"train": 4000, "val": 200, "test": 200}
WORDS_IN_SENTENCE = range(4, 19)
SEEN_IN_TRAINING = 5

# --- inflection -----------------------------------------------------------------------------------


class Pair(NamedTuple):
    """The same thing said in both languages."""

    de: str
    en: str


class Case(Enum):
    """The cases in use; captions do without the genitive."""

    NOMINATIVE = auto()
    ACCUSATIVE = auto()
    DATIVE = auto()


class Determiner(Enum):
    """What opens a noun phrase, which also decides its number."""

    A = auto()
    THE = auto()
    THE_PLURAL = auto()
    TWO = auto()
    THREE = auto()
    NONE_PLURAL = auto()


Table = dict[Case, dict[str, str]]


def _table(nominative: str, accusative: str, dative: str) -> Table:
    """Forms by case, then by column: masculine, feminine, neuter, plural."""
    rows = zip(Case, (nominative, accusative, dative), strict=True)
    return {case: dict(zip("mfnp", row.split(), strict=True)) for case, row in rows}


DEFINITE = _table("der die das die", "den die das die", "dem der dem den")
INDEFINITE = _table("ein eine ein -", "einen eine ein -", "einem einer einem -")
ENDING_AFTER_DEFINITE = _table("e e e en", "en e e en", "en en en en")
# After a form of ein; the plural column, after a numeral or nothing, is the strong one.
ENDING_OTHERWISE = _table("er e es e", "en e es e", "en en en en")
NUMERALS = {Determiner.TWO: Pair("zwei", "two"), Determiner.THREE: Pair("drei", "three")}
CONTRACTIONS = {"in dem ": "im ", "an dem ": "am "}


@dataclass(frozen=True)
class Adjective:
    """An adjective; two of one kind do not describe the same thing."""

    de: str
    en: str
    kind: Literal["size", "age", "colour", "mood"]


@dataclass(frozen=True)
class Noun:
    """A noun, with the adjectives that suit it; ``weak`` ones add -n outside the nominative."""

    de: str
    de_plural: str
    gender: Literal["m", "f", "n"]
    en: str
    en_plural: str
    adjectives: tuple[Adjective, ...]
    weak: bool = False

    def german(self, case: Case, plural: bool) -> str:
        """The noun alone, inflected."""
        if plural:
            needs_n = case is Case.DATIVE and self.de_plural[-1] not in "ns"
            return self.de_plural + "n" * needs_n
        return self.de + "n" * (self.weak and case is not Case.NOMINATIVE)


@dataclass(frozen=True)
class Phrase:
    """A noun with its determiner and perhaps an adjective."""

    determiner: Determiner
    noun: Noun
    adjective: Adjective | None = None

    @property
    def plural(self) -> bool:
        """Whether it is about more than one."""
        return self.determiner not in (Determiner.A, Determiner.THE)

    @property
    def column(self) -> str:
        """The column of the inflection tables that it is read from."""
        return "p" if self.plural else self.noun.gender

    def german(self, case: Case) -> str:
        """The phrase in German, every word of it agreeing."""
        definite = self.determiner in (Determiner.THE, Determiner.THE_PLURAL)
        if definite:
            opening = DEFINITE[case][self.column]
        elif self.determiner is Determiner.A:
            opening = INDEFINITE[case][self.column]
        else:
            opening = NUMERALS[self.determiner].de if self.determiner in NUMERALS else ""
        endings = ENDING_AFTER_DEFINITE if definite else ENDING_OTHERWISE
        described = ""
        if self.adjective:
            described = self.adjective.de.removesuffix("e") + endings[case][self.column]
        return _spaced(opening, described, self.noun.german(case, self.plural))

    def english(self) -> str:
        """The phrase in English."""
        described = self.adjective.en if self.adjective else ""
        rest = _spaced(described, self.noun.en_plural if self.plural else self.noun.en)
        if self.determiner is Determiner.A:
            return f"an {rest}" if rest[0] in "aeiou" else f"a {rest}"
        if self.determiner in (Determiner.THE, Determiner.THE_PLURAL):
            return f"the {rest}"
        return _spaced(NUMERALS[self.determiner].en if self.determiner in NUMERALS else "", rest)


def _spaced(*parts: str) -> str:
    """The parts that are not empty, with a space between them."""
    return " ".join(part for part in parts if part)


# --- lexicon --------------------------------------------------------------------------------------

BIG, SMALL = Adjective("groß", "big", "size"), Adjective("klein", "small", "size")
OLD, NEW = Adjective("alt", "old", "age"), Adjective("neu", "new", "age")
YOUNG = Adjective("jung", "young", "age")
TIRED, HAPPY = Adjective("müde", "tired", "mood"), Adjective("glücklich", "happy", "mood")
RED, BLUE = Adjective("rot", "red", "colour"), Adjective("blau", "blue", "colour")
GREEN, WHITE = Adjective("grün", "green", "colour"), Adjective("weiß", "white", "colour")
BLACK = Adjective("schwarz", "black", "colour")

OF_ADULTS = (YOUNG, OLD, TIRED, HAPPY)
OF_CHILDREN = (SMALL, TIRED, HAPPY)
OF_ANIMALS = (BIG, SMALL, WHITE, BLACK)
OF_CLOTHES = (RED, BLUE, GREEN, WHITE, BLACK, OLD, NEW)
OF_THINGS = (RED, BLUE, GREEN, BIG, SMALL)

MAN = Noun("Mann", "Männer", "m", "man", "men", OF_ADULTS)
WOMAN = Noun("Frau", "Frauen", "f", "woman", "women", OF_ADULTS)
CHILD = Noun("Kind", "Kinder", "n", "child", "children", OF_CHILDREN)
BOY = Noun("Junge", "Jungen", "m", "boy", "boys", OF_CHILDREN, weak=True)
GIRL = Noun("Mädchen", "Mädchen", "n", "girl", "girls", OF_CHILDREN)
DOG = Noun("Hund", "Hunde", "m", "dog", "dogs", OF_ANIMALS)
CAT = Noun("Katze", "Katzen", "f", "cat", "cats", OF_ANIMALS)
HORSE = Noun("Pferd", "Pferde", "n", "horse", "horses", OF_ANIMALS)
BIRD = Noun("Vogel", "Vögel", "m", "bird", "birds", OF_ANIMALS)

HAT = Noun("Hut", "Hüte", "m", "hat", "hats", OF_CLOTHES)
COAT = Noun("Mantel", "Mäntel", "m", "coat", "coats", OF_CLOTHES)
JACKET = Noun("Jacke", "Jacken", "f", "jacket", "jackets", OF_CLOTHES)
SHIRT = Noun("Hemd", "Hemden", "n", "shirt", "shirts", OF_CLOTHES)

BALL = Noun("Ball", "Bälle", "m", "ball", "balls", OF_THINGS)
BASKET = Noun("Korb", "Körbe", "m", "basket", "baskets", OF_THINGS)
BAG = Noun("Tasche", "Taschen", "f", "bag", "bags", OF_THINGS)
UMBRELLA = Noun("Regenschirm", "Regenschirme", "m", "umbrella", "umbrellas", OF_THINGS)
BOOK = Noun("Buch", "Bücher", "n", "book", "books", (*OF_THINGS, OLD, NEW))
NEWSPAPER = Noun("Zeitung", "Zeitungen", "f", "newspaper", "newspapers", (OLD, NEW))
PICTURE = Noun("Bild", "Bilder", "n", "picture", "pictures", (BIG, SMALL, OLD, NEW))
FLOWER = Noun("Blume", "Blumen", "f", "flower", "flowers", (RED, BLUE, WHITE, SMALL))
APPLE = Noun("Apfel", "Äpfel", "m", "apple", "apples", (RED, GREEN, BIG, SMALL))
EGG = Noun("Ei", "Eier", "n", "egg", "eggs", (WHITE, BIG, SMALL))
DOOR = Noun("Tür", "Türen", "f", "door", "doors", (RED, BLUE, GREEN, WHITE, OLD, NEW))
WINDOW = Noun("Fenster", "Fenster", "n", "window", "windows", (BIG, SMALL, OLD, NEW))
BICYCLE = Noun("Fahrrad", "Fahrräder", "n", "bicycle", "bicycles", OF_CLOTHES)
CAR = Noun("Auto", "Autos", "n", "car", "cars", OF_CLOTHES)

TREE = Noun("Baum", "Bäume", "m", "tree", "trees", (BIG, SMALL, OLD))
HOUSE = Noun("Haus", "Häuser", "n", "house", "houses", (BIG, SMALL, OLD, NEW, WHITE, RED))
CHURCH = Noun("Kirche", "Kirchen", "f", "church", "churches", (BIG, SMALL, OLD, NEW, WHITE))
BENCH = Noun("Bank", "Bänke", "f", "bench", "benches", (OLD, GREEN, RED, WHITE, SMALL))
WALL = Noun("Mauer", "Mauern", "f", "wall", "walls", (OLD, WHITE, SMALL))
PARK = Noun("Park", "Parks", "m", "park", "parks", (BIG, SMALL))
GARDEN = Noun("Garten", "Gärten", "m", "garden", "gardens", (BIG, SMALL, OLD))
BEACH = Noun("Strand", "Strände", "m", "beach", "beaches", (BIG, SMALL, WHITE))
STREET = Noun("Straße", "Straßen", "f", "street", "streets", (BIG, SMALL, OLD, NEW))

PEOPLE = (MAN, WOMAN, CHILD, BOY, GIRL)
PETS = (DOG, CAT)
ANIMALS = (*PETS, HORSE, BIRD)
WALKERS = (*PEOPLE, *PETS, HORSE)
CLOTHES = (HAT, COAT, JACKET, SHIRT)
AT_HAND = (HAT, BAG, BASKET, UMBRELLA, DOG)
CARRIED = (BALL, BASKET, BAG, UMBRELLA, BOOK, FLOWER)
THINGS = (*CARRIED, PICTURE, APPLE, EGG, DOOR, WINDOW, BICYCLE, CAR, TREE, HOUSE, CHURCH)

# Said twice is picked twice as often.
INDEFINITE_ONES = (Determiner.A, Determiner.A, Determiner.TWO, Determiner.THREE)
DEFINITE_ONES = (Determiner.THE, Determiner.THE_PLURAL)
ANY = (*INDEFINITE_ONES, *DEFINITE_ONES)
ONE = (Determiner.A, Determiner.THE)


@dataclass(frozen=True)
class Spot:
    """A preposition with the nouns and determiners that make a place of it."""

    preposition: Pair
    nouns: tuple[Noun, ...]
    determiners: tuple[Determiner, ...]


IN, AT, ON = Pair("in", "in"), Pair("an", "at"), Pair("auf", "on")
UNDER, BEHIND = Pair("unter", "under"), Pair("hinter", "behind")
NEXT_TO, IN_FRONT_OF = Pair("neben", "next to"), Pair("vor", "in front of")
BETWEEN = Pair("zwischen", "between")

AREAS = (
    Spot(IN, (PARK, GARDEN), ONE),
    Spot(AT, (BEACH,), ONE),
    Spot(ON, (STREET,), ONE),
)
NEARBY = (
    *AREAS,
    Spot(UNDER, (TREE,), (*ONE, Determiner.TWO)),
    Spot(BEHIND, (HOUSE, CHURCH, CAR), (*ONE, Determiner.TWO)),
    Spot(IN_FRONT_OF, (HOUSE, CHURCH, CAR), (*ONE, Determiner.TWO)),
    Spot(NEXT_TO, (TREE, BENCH, CAR, *PEOPLE, *ANIMALS), ANY),
    Spot(BETWEEN, (TREE, HOUSE, CAR), (Determiner.TWO,)),
)
SEATS = (*NEARBY, Spot(ON, (BENCH, WALL), ONE), Spot(ON, (BENCH, WALL), ONE))


@dataclass(frozen=True)
class Verb:
    """A verb in the third person, with who does it, to what, and where.

    ``particle`` is the separable prefix. ``en`` is what follows is or are.
    """

    de: str
    de_plural: str
    en: str
    subjects: tuple[Noun, ...] = PEOPLE
    objects: tuple[Noun, ...] = ()
    spots: tuple[Spot, ...] = ()
    particle: str = ""
    case: Case = Case.ACCUSATIVE

    def finite(self, plural: bool) -> str:
        """The German form that agrees with the subject, without the particle."""
        return self.de_plural if plural else self.de


BE = Verb("ist", "sind", "")
LAUGH = Verb("lacht", "lachen", "laughing", spots=NEARBY)
WAIT = Verb("wartet", "warten", "waiting", WALKERS, spots=NEARBY)
STAND = Verb("steht", "stehen", "standing", WALKERS, spots=NEARBY)
SIT = Verb("sitzt", "sitzen", "sitting", (*PEOPLE, *PETS, BIRD), spots=SEATS)
INTRANSITIVE = (
    Verb("schläft", "schlafen", "sleeping", WALKERS, spots=NEARBY),
    Verb("spielt", "spielen", "playing", (*PEOPLE, *PETS), spots=NEARBY),
    Verb("tanzt", "tanzen", "dancing", spots=NEARBY),
    Verb("singt", "singen", "singing", (*PEOPLE, BIRD), spots=NEARBY),
    Verb("rennt", "rennen", "running", WALKERS, spots=AREAS),
    LAUGH,
    WAIT,
    STAND,
    SIT,
)
NEEDING_A_PLACE = (STAND, SIT)
# What goes with having one's hands full.
AT_REST = (LAUGH, WAIT, STAND, SIT)

READ = Verb("liest", "lesen", "reading", objects=(BOOK, NEWSPAPER), spots=AREAS)
HOLD = Verb("hält", "halten", "holding", objects=CARRIED, spots=AREAS)
EAT = Verb("isst", "essen", "eating", objects=(APPLE, EGG), spots=AREAS)
PICK_UP = Verb(
    "hebt", "heben", "picking up", objects=(*CARRIED, APPLE), spots=AREAS, particle="auf"
)
OPEN = Verb("macht", "machen", "opening", objects=(DOOR, WINDOW, BAG, UMBRELLA), particle="auf")
CLOSE = Verb("macht", "machen", "closing", objects=(DOOR, WINDOW, BAG, UMBRELLA), particle="zu")
# With things as objects only, so that nobody can take the object for the subject.
OF_RELATIVE_CLAUSES = (READ, HOLD, EAT, PICK_UP, OPEN, CLOSE)
TRANSITIVE = (
    *OF_RELATIVE_CLAUSES,
    Verb("kauft", "kaufen", "buying", objects=(*CLOTHES, *CARRIED, APPLE, EGG), spots=AREAS),
    Verb("malt", "malen", "painting", objects=(PICTURE, FLOWER, TREE, HOUSE, HORSE), spots=AREAS),
    Verb("wäscht", "waschen", "washing", objects=(CAR, BICYCLE, DOG, HORSE), spots=AREAS),
    Verb("sucht", "suchen", "looking for", objects=(BALL, BAG, *PEOPLE, *PETS)),
    Verb("sieht", "sehen", "looking at", objects=(PICTURE, *PEOPLE, *ANIMALS), particle="an"),
    Verb("jagt", "jagen", "chasing", subjects=PETS, objects=(BALL, *PETS, BIRD), spots=AREAS),
)
WITH_DATIVE = (
    Verb("hilft", "helfen", "helping", objects=PEOPLE, case=Case.DATIVE),
    Verb("folgt", "folgen", "following", WALKERS, (*PEOPLE, *PETS, HORSE), case=Case.DATIVE),
    Verb(
        "sieht", "sehen", "watching", objects=(*PEOPLE, *ANIMALS), particle="zu", case=Case.DATIVE
    ),
)
GIVE = Verb("gibt", "geben", "giving", objects=(*CARRIED, APPLE, EGG))
SHOW = Verb("zeigt", "zeigen", "showing", objects=(*CARRIED, PICTURE))
WEAR = Verb("trägt", "tragen", "wearing", objects=CLOTHES)
PUT_ON = Verb("zieht", "ziehen", "putting on", objects=(COAT, JACKET, SHIRT), particle="an")
TAKE_OFF = Verb("zieht", "ziehen", "taking off", objects=(COAT, JACKET, SHIRT), particle="aus")

# --- clauses --------------------------------------------------------------------------------------


class Subject(NamedTuple):
    """Who does it, in the nominative, and whether the verb is plural."""

    de: str
    en: str
    plural: bool


@dataclass(frozen=True)
class Clause:
    """A subject, a verb, and all else that belongs to the verb."""

    subject: Subject
    verb: Verb
    rest: Pair

    @property
    def main(self) -> str:
        """German, subject first, verb second, particle last."""
        return _spaced(self.subject.de, self._finite, self.rest.de, self.verb.particle)

    @property
    def inverted(self) -> str:
        """German, for after something else in first place: verb, then subject."""
        return _spaced(self._finite, self.subject.de, self.rest.de, self.verb.particle)

    @property
    def subordinate(self) -> str:
        """German, verb last and in one word with its particle."""
        return _spaced(self.subject.de, self.rest.de, self.verb.particle + self._finite)

    @property
    def english(self) -> str:
        """English, which has one order for all of these."""
        auxiliary = "are" if self.subject.plural else "is"
        return _spaced(self.subject.en, auxiliary, self.verb.en, self.rest.en)

    @property
    def _finite(self) -> str:
        return self.verb.finite(self.subject.plural)


def alone(phrase: Phrase) -> Subject:
    """A phrase as it is: ein Mann."""
    return Subject(phrase.german(Case.NOMINATIVE), phrase.english(), phrase.plural)


def both(first: Phrase, second: Phrase) -> Subject:
    """Two phrases, plural together: ein Mann und eine Frau."""
    one, other = alone(first), alone(second)
    return Subject(f"{one.de} und {other.de}", f"{one.en} and {other.en}", True)


def having(phrase: Phrase, thing: Phrase) -> Subject:
    """A phrase with something about it, in the dative: ein Mann mit einem Hut."""
    owner, owned = alone(phrase), place(Pair("mit", "with"), thing)
    return Subject(_spaced(owner.de, owned.de), _spaced(owner.en, owned.en), owner.plural)


def who(phrase: Phrase, verb: Verb, thing: Phrase) -> Subject:
    """A phrase with a relative clause: ein Mann, der einen Hut trägt, (comma included)."""
    pronoun = DEFINITE[Case.NOMINATIVE][phrase.column]
    relative = clause(Subject(pronoun, "who", phrase.plural), verb, thing)
    person = alone(phrase)
    return Subject(
        f"{person.de}, {relative.subordinate},", f"{person.en} {relative.english}", person.plural
    )


def place(preposition: Pair, phrase: Phrase) -> Pair:
    """A prepositional phrase with the dative: im Park, vor einem Haus."""
    german = f"{preposition.de} {phrase.german(Case.DATIVE)}"
    for full, short in CONTRACTIONS.items():
        if german.startswith(full):
            german = short + german.removeprefix(full)
    return Pair(german, f"{preposition.en} {phrase.english()}")


def clause(
    subject: Subject,
    verb: Verb,
    thing: Phrase | None = None,
    *,
    recipient: Phrase | None = None,
    where: Pair | None = None,
) -> Clause:
    """A clause; German says where before what, English after it.

    Args:
        subject: who does it.
        verb: what is done.
        thing: the verb's object, put in the case that the verb asks for.
        recipient: to whom, in the dative.
        where: a place.
    """
    there = where or Pair("", "")
    what = Pair(thing.german(verb.case), thing.english()) if thing else Pair("", "")
    to = Pair(recipient.german(Case.DATIVE), recipient.english()) if recipient else Pair("", "")
    rest = Pair(_spaced(to.de, there.de, what.de), _spaced(to.en, what.en, there.en))
    return Clause(subject, verb, rest)


def being(phrase: Phrase, adjective: Adjective) -> Clause:
    """A predicate adjective, which does not inflect: der Ball ist rot."""
    return Clause(alone(phrase), BE, Pair(adjective.de, adjective.en))


# --- sentences from clauses -----------------------------------------------------------------------


def plain(main: Clause) -> Pair:
    """A main clause on its own."""
    return _sentence(main.main, main.english)


def place_first(where: Pair, main: Clause) -> Pair:
    """The place, then the clause: Im Park schläft ein Hund."""
    return _sentence(f"{where.de} {main.inverted}", f"{where.en}, {main.english}")


def during(main: Clause, other: Clause) -> Pair:
    """Ein Mann singt, während ein Hund schläft."""
    return _sentence(
        f"{main.main}, während {other.subordinate}", f"{main.english} while {other.english}"
    )


def during_first(other: Clause, main: Clause) -> Pair:
    """Während ein Hund schläft, singt ein Mann."""
    return _sentence(
        f"während {other.subordinate}, {main.inverted}", f"while {other.english}, {main.english}"
    )


def because(main: Clause, reason: Clause) -> Pair:
    """Ein Kind lacht, weil ein Hund spielt."""
    return _sentence(
        f"{main.main}, weil {reason.subordinate}", f"{main.english} because {reason.english}"
    )


def _sentence(german: str, english: str) -> Pair:
    return Pair(*(f"{text[0].upper()}{text[1:]}." for text in (german, english)))


# --- patterns, filled at random -------------------------------------------------------------------


class Writer:
    """Writes random sentences, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        # random() is the one method that Python promises to keep as it is from version to version.
        self._random = random.Random(seed).random

    def pairs(self) -> Iterator[Pair]:
        """Sentences without end, some of them more than once."""
        patterns = (
            lambda: plain(self._staying()),
            lambda: plain(self._together()),
            lambda: plain(self._described()),
            lambda: plain(self._described()),
            lambda: plain(self._acting()),
            lambda: plain(self._acting()),
            lambda: plain(self._dressing()),
            lambda: plain(self._with_dative()),
            lambda: plain(self._giving()),
            lambda: plain(self._state()),
            self._place_first,
            lambda: during(self._event(), self._event()),
            lambda: during_first(self._event(), self._event()),
            self._because,
        )
        while True:
            yield self._pick(patterns)()

    # Clauses.

    def _event(self) -> Clause:
        return self._pick((self._staying, self._acting, self._dressing, self._with_dative))()

    def _staying(self) -> Clause:
        verb = self._pick(INTRANSITIVE)
        subject = self._phrase(verb.subjects, ANY)
        if verb in NEEDING_A_PLACE or self._chance(0.6):
            return clause(alone(subject), verb, where=self._place(verb, subject.noun))
        return clause(alone(subject), verb)

    def _together(self) -> Clause:
        verb = self._pick(INTRANSITIVE)
        number = (self._pick(ONE),)
        first = self._phrase(verb.subjects, number)
        second = self._phrase(verb.subjects, number, other_than=first.noun)
        return clause(both(first, second), verb, where=self._place(verb, first.noun))

    def _described(self) -> Clause:
        person = self._phrase(PEOPLE, ANY)
        action = self._pick(INTRANSITIVE)
        if self._chance(0.4):
            subject = having(person, self._belonging(person, AT_HAND))
        elif self._chance(0.3):
            subject = who(person, WEAR, self._belonging(person, CLOTHES))
        else:
            verb = self._pick(OF_RELATIVE_CLAUSES)
            subject = who(person, verb, self._phrase(verb.objects, ANY))
            action = self._pick(AT_REST)
        return clause(subject, action, where=self._place(action, person.noun))

    def _acting(self) -> Clause:
        verb = self._pick(TRANSITIVE)
        subject = self._phrase(verb.subjects, ANY)
        if verb.spots and self._chance(0.4):
            # German puts the place before an indefinite object, but after a definite one.
            thing = self._phrase(verb.objects, INDEFINITE_ONES, other_than=subject.noun)
            return clause(alone(subject), verb, thing, where=self._place(verb, subject.noun))
        return clause(alone(subject), verb, self._phrase(verb.objects, ANY, subject.noun))

    def _dressing(self) -> Clause:
        verb = self._pick((WEAR, WEAR, PUT_ON, TAKE_OFF))
        subject = self._phrase(PEOPLE, ANY)
        return clause(alone(subject), verb, self._belonging(subject, verb.objects))

    def _with_dative(self) -> Clause:
        verb = self._pick(WITH_DATIVE)
        subject = self._phrase(verb.subjects, ANY)
        return clause(alone(subject), verb, self._phrase(verb.objects, ANY, subject.noun))

    def _giving(self) -> Clause:
        verb = self._pick((GIVE, SHOW))
        subject = self._phrase(PEOPLE, ANY)
        recipient = self._phrase(PEOPLE, ANY, other_than=subject.noun)
        thing = self._phrase(verb.objects, INDEFINITE_ONES)
        return clause(alone(subject), verb, thing, recipient=recipient)

    def _state(self) -> Clause:
        subject = self._phrase((*PEOPLE, *CLOTHES, *THINGS), DEFINITE_ONES)
        told = subject.adjective.kind if subject.adjective else None
        fitting = [other for other in subject.noun.adjectives if other.kind != told]
        return being(subject, self._pick(fitting))

    # Sentences that are more than one clause.

    def _place_first(self) -> Pair:
        verb = self._pick(INTRANSITIVE)
        subject = self._phrase(verb.subjects, ANY)
        return place_first(self._place(verb, subject.noun), clause(alone(subject), verb))

    def _because(self) -> Pair:
        waiting = clause(alone(self._phrase(PEOPLE, ANY)), self._pick((LAUGH, WAIT)))
        if self._chance(0.3):
            person = Phrase(self._pick(DEFINITE_ONES), self._pick(PEOPLE))
            return because(waiting, being(person, self._pick((TIRED, HAPPY))))
        return because(waiting, self._event())

    # Parts of clauses.

    def _place(self, verb: Verb, other_than: Noun) -> Pair:
        spot = self._pick(verb.spots)
        return place(spot.preposition, self._phrase(spot.nouns, spot.determiners, other_than))

    def _belonging(self, owner: Phrase, nouns: Sequence[Noun]) -> Phrase:
        """One thing for one owner, and several for several."""
        return self._phrase(nouns, (Determiner.NONE_PLURAL if owner.plural else Determiner.A,))

    def _phrase(
        self,
        nouns: Sequence[Noun],
        determiners: Sequence[Determiner],
        other_than: Noun | None = None,
    ) -> Phrase:
        noun = self._pick([noun for noun in nouns if noun is not other_than])
        adjective = self._pick(noun.adjectives) if self._chance(0.5) else None
        return Phrase(self._pick(determiners), noun, adjective)

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def _chance(self, probability: float) -> bool:
        return self._random() < probability


# --- splits ---------------------------------------------------------------------------------------


def make_splits() -> dict[str, list[Pair]]:
    """All splits; no sentence comes twice, and held-out ones have no word that is rare in train."""
    pairs = _new_and_of_fair_length(Writer(SEED).pairs())
    splits = {"train": [next(pairs) for _ in range(SIZES["train"])]}
    counts = Counter(word for pair in splits["train"] for word in _words(pair))
    known = (
        pair for pair in pairs if all(counts[word] >= SEEN_IN_TRAINING for word in _words(pair))
    )
    for name in ("val", "test"):
        splits[name] = [next(known) for _ in range(SIZES[name])]
    return splits


def write_splits(directory: Path) -> None:
    """Write every split as two text files, one sentence a line, into ``directory``."""
    for name, pairs in make_splits().items():
        for language in Pair._fields:
            lines = (f"{getattr(pair, language)}\n" for pair in pairs)
            path = directory / f"{name}.{language}"
            path.write_text("".join(lines), encoding="utf-8", newline="\n")


def _new_and_of_fair_length(pairs: Iterable[Pair]) -> Iterator[Pair]:
    seen: set[Pair] = set()
    for pair in pairs:
        if pair not in seen and all(len(side.split()) in WORDS_IN_SENTENCE for side in pair):
            seen.add(pair)
            yield pair


def _words(pair: Pair) -> Iterator[tuple[str, str]]:
    """Every word of a pair, with its language."""
    for language, sentence in zip(Pair._fields, pair, strict=True):
        for word in re.findall(r"\w+", sentence):
            yield language, word


if __name__ == "__main__":
    write_splits(Path(__file__).parent)

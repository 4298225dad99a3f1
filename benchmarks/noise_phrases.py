"""Sentences of languages that Multi30k lacks, and lines that web pages repeat."""

import random

_CAPTIONS = {
    "fr": (
        ("Un homme", "Une femme âgée", "Un petit garçon", "Une jeune fille", "Un chien noir"),
        ("court lentement", "attend le bus", "regarde les passants", "se repose", "joue"),
        ("dans le parc", "devant une maison", "près de la rivière", "sur la plage", "à l'ombre"),
    ),
    "es": (
        ("Un hombre", "Una mujer mayor", "Un niño pequeño", "Una chica joven", "Un perro negro"),
        ("corre despacio", "espera el autobús", "mira a la gente", "descansa", "juega"),
        ("en el parque", "delante de una casa", "cerca del río", "en la playa", "a la sombra"),
    ),
    "it": (
        ("Un uomo", "Una donna anziana", "Un bambino piccolo", "Una ragazza", "Un cane nero"),
        ("corre piano", "aspetta l'autobus", "guarda i passanti", "si riposa", "gioca"),
        ("nel parco", "davanti a una casa", "vicino al fiume", "sulla spiaggia", "all'ombra"),
    ),
    "nl": (
        ("Een man", "Een oudere vrouw", "Een kleine jongen", "Een jong meisje", "Een zwarte hond"),
        ("loopt langzaam", "wacht op de bus", "kijkt naar de mensen", "rust uit", "speelt"),
        ("in het park", "voor een huis", "vlak bij de rivier", "op het strand", "in de schaduw"),
    ),
    "pl": (
        ("Mężczyzna", "Starsza kobieta", "Mały chłopiec", "Młoda dziewczyna", "Czarny pies"),
        ("biegnie powoli", "czeka na autobus", "patrzy na ludzi", "odpoczywa", "bawi się"),
        ("w parku", "przed domem", "w pobliżu rzeki", "na plaży", "w cieniu drzewa"),
    ),
    "ru": (
        ("Мужчина", "Пожилая женщина", "Маленький мальчик", "Молодая девушка", "Чёрная собака"),
        ("медленно бежит", "ждёт автобус", "смотрит на людей", "отдыхает", "играет"),
        ("в парке", "перед домом", "у реки", "на пляже", "в тени дерева"),
    ),
    "el": (
        ("Ένας άντρας", "Μια γυναίκα", "Ένα μικρό αγόρι", "Ένα κορίτσι", "Ένας μαύρος σκύλος"),
        ("τρέχει αργά", "περιμένει το λεωφορείο", "κοιτάζει τον κόσμο", "ξεκουράζεται", "παίζει"),
        ("στο πάρκο", "μπροστά σε ένα σπίτι", "κοντά στο ποτάμι", "στην παραλία", "στη σκιά"),
    ),
}
SAME_SCRIPT = ("fr", "es", "it", "nl", "pl")
OTHER_SCRIPT = ("ru", "el")

EXACT_BOILERPLATE = (
    ("Diese Website verwendet Cookies.", "This website uses cookies."),
    ("Alle Rechte vorbehalten.", "All rights reserved."),
    ("Melden Sie sich für unseren Newsletter an!", "Sign up for our newsletter!"),
    ("Startseite | Über uns | Impressum", "Home | About us | Imprint"),
    ("Zurück zum Seitenanfang", "Back to top"),
    ("Klicken Sie hier, um weiterzulesen.", "Click here to read more."),
)
NUMBERED_BOILERPLATE = (
    ("Seite {a} von {b}", "Page {a} of {b}"),
    ("{a} Kommentare, {b} Aufrufe", "{a} comments, {b} views"),
    ("Zuletzt geändert vor {a} Tagen um {b} Uhr", "Last changed {a} days ago at {b} o'clock"),
    ("Artikel {a} in den Warenkorb ({b} Euro)", "Add item {a} to the cart ({b} euros)"),
)


def make_caption(language: str, draw: random.Random) -> str:
    """Return a caption in a language, drawn from 125."""
    return " ".join(draw.choice(part) for part in _CAPTIONS[language]) + "."


def make_boilerplate(draw: random.Random) -> tuple[str, str]:
    """Return a line that web pages repeat: word for word, or with other numbers."""
    if draw.random() < 0.5:
        return draw.choice(EXACT_BOILERPLATE)
    src, tgt = draw.choice(NUMBERED_BOILERPLATE)
    numbers = {"a": draw.randrange(1, 100), "b": draw.randrange(1, 1000)}
    return src.format(**numbers), tgt.format(**numbers)

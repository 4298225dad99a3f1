"""Names of languages in BCP 47 and POSIX form."""

import pytest
from pydantic import TypeAdapter

from transformer_cli.config.languages import base_language, normalize_language, script_code
from transformer_cli.config.sections import Language


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("de", "de"),
        ("pt_BR", "pt-BR"),
        ("pt-br", "pt-BR"),
        ("zh-hant-tw", "zh-Hant-TW"),
        ("zh_Hant_TW", "zh-Hant-TW"),
        ("zh_TW.UTF-8", "zh-TW"),
        ("sr@latin", "sr-Latn"),
        ("sr_RS@latin", "sr-Latn-RS"),
        ("uz_UZ.UTF-8@cyrillic", "uz-Cyrl-UZ"),
        ("de_AT@euro", "de-AT"),
        ("ca@valencia", "ca-valencia"),
        ("sr@ijekavianlatin", "sr-Latn"),
        ("de-1996", "de-1996"),
        ("es-419", "es-419"),
        ("DE", "de"),
        ("ckb", "ckb"),
    ],
)
def test_each_form_becomes_the_usual_one(given: str, expected: str) -> None:
    assert normalize_language(given) == expected
    assert normalize_language(expected) == expected
    assert TypeAdapter(Language).validate_python(given) == expected
    assert base_language(given) == base_language(expected) == expected.partition("-")[0]


@pytest.mark.parametrize("given", ["", "d", "German", "de-", "de en", "de/../x", "de-" + "a" * 40])
def test_what_is_no_name_is_refused(given: str) -> None:
    assert normalize_language(given) is None


def test_a_script_is_found() -> None:
    names = ("sr@latin", "zh-Hant-TW", "de-1996", "pt_BR", "German")
    assert [script_code(name) for name in names] == ["Latn", "Hant", None, None, None]

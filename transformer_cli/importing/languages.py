"""The languages of a model, by what its files and its name say."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from transformer_cli.config.sections import LANGUAGE_PATTERN
from transformer_cli.errors import UsageError

_OPUS_NAME = re.compile(r"opus-mt-(?:.+-)?([a-z]{2,3})-([a-z]{2,3})")


def find_languages(
    src: str | None, tgt: str | None, settings: Mapping[str, Any], name: str
) -> tuple[str, str]:
    """Return a model's source and target language.

    Args:
        src: what --src-lang says.
        tgt: what --tgt-lang says.
        settings: what is in tokenizer_config.json.
        name: the model's, which may tell, as in 'opus-mt-de-en'.

    Raises:
        UsageError: nothing tells one of them.
    """
    opus = _OPUS_NAME.fullmatch(PurePath(name).name)
    of_name = opus.groups() if opus else (None, None)
    src_lang = _first(src, settings.get("source_lang"), of_name[0])
    tgt_lang = _first(tgt, settings.get("target_lang"), of_name[1])
    for option, given, found in (("--src-lang", src, src_lang), ("--tgt-lang", tgt, tgt_lang)):
        if given is not None and found != given:
            raise UsageError(f"{option} {given}: is no language's code; give one as in 'de'")
    if src_lang is None or tgt_lang is None:
        languages = {"--src-lang CODE": src_lang, "--tgt-lang CODE": tgt_lang}
        missing = " ".join(option for option, found in languages.items() if found is None)
        raise UsageError(f"{name}: does not tell its languages; give them: {missing}")
    return src_lang, tgt_lang


def _first(*codes: object) -> str | None:
    """Return the first that is a language's code."""
    return next(
        (each for each in codes if isinstance(each, str) and re.fullmatch(LANGUAGE_PATTERN, each)),
        None,
    )

"""The ``CodecKind`` that restores the casing of source lines; it reserves no ids.

Its record, the casing of the source side of the training text, is in tokenizer.json.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from transformer_cli.config.languages import base_language
from transformer_cli.config.schema import Config
from transformer_cli.extensions.truecasing.lines import casing_of, to_upper
from transformer_cli.extensions.verbatim.verbatim_parts import map_words
from transformer_cli.inference.translation import EncodedLine, Reviser, Translation
from transformer_cli.text.protocol import EncodedSource, Lines, Tokenizers

_LANGUAGES = {"src_lang": str, "tgt_lang": str}
_LEARNED = {"words": str, "capital_first": bool}


class TruecaseKind:
    """The ``CodecKind`` that makes ``_Truecasing`` tokenizers."""

    def describe(self, config: Config) -> dict[str, Any]:
        if config.tokenizer.lowercase or not getattr(config.tokenizer, "truecase", True):
            return {}
        return {key: base_language(getattr(config.data, key)) for key in _LANGUAGES}

    def searches_again(self, config: Config) -> bool:
        return False

    def check(self, record: Any) -> None:
        values = record if isinstance(record, dict) else {}
        types = {key: type(value) for key, value in values.items()}
        if types not in (_LANGUAGES, _LANGUAGES | _LEARNED):
            raise ValueError("truecase: not a record of casing")

    def check_reuse(self, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        pass  # without a record, lines are translated as they are

    def learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> dict[str, Any]:
        from transformer_cli.extensions.truecasing.learning import learn_casing

        return {**record, **learn_casing(src, record["src_lang"])}

    def text_to_learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> tuple[Lines, Lines]:
        return src, tgt

    def open(self, tokenizers: Tokenizers, record: dict[str, Any]) -> Tokenizers:
        if not record.get("words"):
            return tokenizers
        kind = type(tokenizers)
        made: type[Tokenizers] = type(kind.__name__, (_Truecasing, kind), {"record": record})
        return made(**vars(tokenizers))


KIND = TruecaseKind()


class _Truecasing(Tokenizers):
    """Tokenizers that restore the casing of unusual source lines before encoding them."""

    record: dict[str, Any]

    def encode_source(self, line: str) -> EncodedSource:
        kind = casing_of(line)
        if kind is not None:
            from transformer_cli.extensions.truecasing.casing import restore

            line = restore(line, kind, self.record)
        return super().encode_source(line)

    @property
    def revisers(self) -> tuple[Any, ...]:
        return (*super().revisers, _Capitalizer(self.record["tgt_lang"]))


class _Capitalizer(Reviser):
    """A reviser that writes the translations of lines in capitals in capitals."""

    def __init__(self, language: str) -> None:
        self._language = language

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Any,
    ) -> list[list[Translation]]:
        revised = list(found)
        for place, line in enumerate(lines):
            is_restored = line.source.line is not line.text and not line.is_copied
            if is_restored and casing_of(line.text) == "upper":
                change = partial(to_upper, language=self._language)
                revised[place] = [
                    replace(one, text=map_words(one.text, change)) for one in found[place]
                ]
        return revised

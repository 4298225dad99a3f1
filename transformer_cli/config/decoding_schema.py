"""The settings of the search, which are also options of ``translate`` and of the Python API."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from transformer_cli.config.choices import HIGHEST_PENALTY, LARGEST_BEAM, MOST_BATCH_TOKENS
from transformer_cli.config.sections import Section, setting


class DecodingConfig(Section):
    """Search settings; the command line can override them."""

    beam_size: Annotated[int, Field(gt=0, le=LARGEST_BEAM)] = setting(
        1, "beam size; 1 is greedy search"
    )
    length_penalty: Annotated[float, Field(ge=0.0, le=HIGHEST_PENALTY)] = setting(
        0.6,
        "alpha in equation 14 of Wu et al. 2016 (GNMT): higher values prefer longer "
        "translations, 0 uses log-probabilities alone; only for beam search",
        option=("A", "Higher values give longer translations."),
    )
    batch_tokens: Annotated[int, Field(gt=0, le=MOST_BATCH_TOKENS)] = setting(
        8192, "maximum batch size: source tokens, padding included, times beam size"
    )
    no_repeat_ngram_size: Annotated[int | None, Field(ge=4, le=100)] = setting(
        None,
        "never write the same sequence of this many tokens twice, unless the source has one "
        "twice; null: allow it",
        option=("N", "Never write N tokens twice, unless the source does."),
    )
    max_length_ratio: Annotated[float, Field(gt=0.0, le=100.0)] = setting(
        2.0, "maximum output length: this many times the source's tokens, plus 10"
    )

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with these values; None keeps the current value."""
        given = {name: value for name, value in values.items() if value is not None}
        return self.model_copy(update=given)

    @classmethod
    def options(cls) -> dict[str, tuple[str, str]]:
        """Return the metavar and help of each setting that is an option, keyed by setting name."""
        extras: Any = {name: f.json_schema_extra or {} for name, f in cls.model_fields.items()}
        return {name: facts["option"] for name, facts in extras.items() if "option" in facts}

    @classmethod
    def bounds(cls, name: str) -> tuple[Any, Any]:
        """Return the minimum and maximum of a setting; None means that there is no limit."""
        marks = cls.model_fields[name].metadata
        above, least, most = (
            next((getattr(each, key) for each in marks if hasattr(each, key)), None)
            for key in ("gt", "ge", "le")
        )
        return least if above is None else above + 1, most  # an option with ``gt`` is an integer

"""The keys of a distillation's YAML file."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from transformer_cli.config.choices import LARGEST_BEAM
from transformer_cli.config.sections import FilePath, Section

Teachers = Annotated[list[str], Field(min_length=1)]


class Translated(Section):
    """Text that is translated for the student."""

    corpus: bool = Field(True, description="the student's own training text, or its other side")
    monolingual: list[FilePath] = Field(
        default=[], description="further text, a sentence a line; may be compressed"
    )
    beam_size: Annotated[int, Field(gt=0, le=LARGEST_BEAM)] | None = Field(
        None, description="beam size; null: the first teacher's"
    )

    @model_validator(mode="after")
    def _there_is_text(self) -> Self:
        if not self.corpus and not self.monolingual:
            raise ValueError("corpus: false, and no monolingual text: nothing to translate")
        return self


class Forward(Translated):
    """What the teachers translate: the student's targets."""

    n_best: Annotated[int, Field(ge=2, le=LARGEST_BEAM)] | None = Field(
        None, description="candidates for each line of the corpus, with keep: nearest"
    )
    keep: Literal["best", "nearest"] = Field(
        "best",
        description="best: the likeliest translation; nearest: of n_best, the one with the "
        "highest chrF against the reference",
    )

    @model_validator(mode="after")
    def _nearest_has_candidates(self) -> Self:
        if (self.keep == "nearest") != (self.n_best is not None):
            raise ValueError(
                "n_best: goes with keep: nearest, and that with n_best; give both or neither"
            )
        return self


class Back(Translated):
    """Back-translation: what models of the other direction write as the student's sources."""

    teachers: Teachers = Field(description="as above, but from the target language to the source")
    sample: bool = Field(
        False,
        description="draw from the model's distribution, with the student's seed, instead of "
        "searching",
    )

    @model_validator(mode="after")
    def _samples_without_a_beam(self) -> Self:
        if self.sample and self.beam_size is not None:
            raise ValueError("beam_size: is for search, and sample draws; leave one of them out")
        return self


class DistillSettings(Section):
    """A distillation: who translates what for which student."""

    teachers: Teachers = Field(
        description="configurations (YAML), trained first unless their runs are finished, or run "
        "directories; several translate as an ensemble"
    )
    forward: Forward = Field(Forward(), description="what the teachers translate")
    back: Back | None = Field(None, description="back-translation; null: none")
    student: str = Field(description="configuration of the student")
    keep_reference: bool = Field(
        True, description="whether the student is trained on the original pairs too"
    )

"""The option of ``translate`` that draws random translations instead of searching."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option

with lazy_imports():
    from transformer_cli.extensions.sampling import gumbel


@dataclass(frozen=True)
class SamplingOptions(ExtraOptions):
    """The option ``--sample``, which draws random translations."""

    heading = "Search"
    sample: Annotated[
        int | None,
        option("SEED", "Draw random translations with this seed.", min=0, marks=("torch",)),
    ] = None

    def check(self, given: Any) -> None:
        """Raise UsageError if ``--sample`` is combined with options for several translations."""
        asked = [("--beam-size", given.beam_size or 1), *given.marked("scores")]
        for name, count in asked if self.sample is not None else ():
            if count > 1:
                problem = f"--sample draws one translation of a line; leave out {name}"
                raise UsageError(f"translate: {problem}")

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that draws random translations if ``--sample`` is given."""
        if self.sample is None:
            return translator
        sampler = partial(gumbel.Sampler, seed=self.sample)
        return replace(translator.with_search(beam_size=1), sampler=sampler)

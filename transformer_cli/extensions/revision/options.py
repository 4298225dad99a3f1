"""The option of ``translate`` for doubtful translations."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from transformer_cli.base.errors import UsageError
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option


@dataclass(frozen=True)
class RevisionOptions(ExtraOptions):
    """The option that says what to do with doubtful translations."""

    heading = "Search"
    about = "Lines with doubtful (e.g. repetitive) translations get a second try with a wider beam."
    fallback: Annotated[
        Literal["source"] | None,
        option(None, "Write the source instead of a doubtful translation."),
    ] = None

    def check(self, given: Any) -> None:
        """Raise UsageError if --fallback is combined with an option that writes scores."""
        if self.fallback is not None and given.marked("scores"):
            raise UsageError(
                f"translate: {given.marked('scores')[0][0]} writes the model's output; leave out "
                "--fallback"
            )

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that revises doubtful translations."""
        from transformer_cli.extensions.revision import doubts, unlike_training

        is_raw = bool(given.marked("scores"))
        finder = doubts.DoubtFinder(translator.config.data.tgt_lang, doubts.may_copy(translator))
        reviser = doubts.Doubts(finder, is_raw, falls_back=self.fallback is not None)
        if not is_raw:
            translator = translator.extended_by(unlike_training.Sparing)
        return replace(translator, revisers=(*translator.revisers, reviser))

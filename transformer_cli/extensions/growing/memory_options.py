"""The option-less feature of ``translate`` that recalls the corrections that a run contains."""

from typing import Any

from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions


class MemoryOptions(ExtraOptions):
    """No options: a line that was corrected is translated as corrected."""

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that recalls the corrections of the run ``given.run``, if any."""
        if (path := given.run / "corrections.tsv").is_file():
            from transformer_cli.extensions.growing.memory import remember

            translator = remember(translator, path)
        return translator

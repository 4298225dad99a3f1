"""Train, score and use Transformer translation models from the command line, or from Python."""

from typing import TYPE_CHECKING

from transformer_cli.base.packages import __version__

__all__ = ["TransformerCliError", "Translation", "Translator", "__version__"]

if TYPE_CHECKING:
    from transformer_cli.api import Translator as Translator
    from transformer_cli.base.errors import TransformerCliError as TransformerCliError
    from transformer_cli.inference.translation import Translation as Translation
else:

    def __getattr__(name: str) -> object:
        # Not before they are asked for: torch takes seconds to import, and --help needs none of it.
        from importlib import import_module

        modules = {
            "Translation": "transformer_cli.inference.translation",
            "Translator": "transformer_cli.api",
            "TransformerCliError": "transformer_cli.base.errors",
        }
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

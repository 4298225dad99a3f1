"""Train, score and use Transformer translation models.

Extensions add the names that programs can import from here::

    provides = {"python": {"Reader": {"load": "reading:Reader"}}}
"""

from typing import Any

from transformer_cli.base.errors import TransformerCliError as TransformerCliError
from transformer_cli.base.packages import __version__ as __version__


def __getattr__(name: str) -> Any:
    # Imports a name when it is first used: torch takes seconds, and --help needs none of it.
    from transformer_cli.base import registry

    if name == "__all__":
        return ["TransformerCliError", "__version__", *registry.entries("python")]
    if (entry := registry.entries("python").get(name)) is None:
        installed = registry.describe_installed()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {installed}")
    return entry.load()

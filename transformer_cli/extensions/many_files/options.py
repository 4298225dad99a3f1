"""Many files as the input of `translate`: a directory, or a pattern for filenames."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformer_cli.base.locations import is_url
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.translate import InputOptions, TranslateOptions

with lazy_imports():
    from transformer_cli.extensions.many_files import command

if TYPE_CHECKING:
    from transformer_cli.cli.translation import InputFormat


@dataclass(frozen=True)
class ManyFilesOptions(InputOptions):
    """Lets ``-i`` name a directory or a filename pattern, and ``-o`` an output directory.

    For each file, options of other extensions are checked with their ``check_one`` or, if they have
    none, with their ``check``.
    """

    heading = "Options"
    about = "If -i is a directory or a quoted 'pattern*', -o must be a directory."

    def matches(self, given: TranslateOptions) -> bool:
        path = given.input_
        has_wildcards = any(sign in str(path) for sign in "*?")
        return path.is_dir() or (has_wildcards and not is_url(path) and not path.exists())

    def open(self, given: TranslateOptions) -> "InputFormat":
        return command.ManyFiles()

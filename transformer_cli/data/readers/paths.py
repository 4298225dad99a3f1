"""Paths with wildcards."""

import glob
from pathlib import Path

from transformer_cli.errors import CorpusError


def matching_files(path: Path) -> tuple[Path, ...]:
    """Return the files that match a path, sorted; * and ? are wildcards.

    A path without wildcards, or of a file that has them in its name, is returned unseen.

    Raises:
        CorpusError: no file matches the wildcards.
    """
    pattern = str(path)
    if not any(each in pattern for each in "*?") or path.exists():
        return (path,)
    found = glob.glob(pattern.replace("[", "[[]"))  # noqa: PTH207, as the pattern may be absolute
    files = tuple(each for each in map(Path, sorted(found)) if not each.is_dir())
    if not files:
        raise CorpusError(
            f"{path}: no file matches; relative paths start from the directory that the command "
            f"is run in, here {Path.cwd()}"
        )
    return files

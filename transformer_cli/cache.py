"""The user's cache: what any command can make again, such as converted models.

What CTranslate2 and other libraries trust is kept there, so nobody else may write it.
"""

import os
import sys
from pathlib import Path


def cache_directory(kind: str) -> Path:
    """Return where things of a kind are kept; it need not be there."""
    if given := os.environ.get("TRANSFORMER_CLI_CACHE"):
        return Path(given) / kind
    from platformdirs import user_cache_path

    return user_cache_path("transformer-cli", appauthor=False) / kind


def open_cache(kind: str) -> Path | None:
    """Return the directory of a kind, made if need be; None: nobody else's may be used."""
    cache = cache_directory(kind)
    try:
        if not cache.is_absolute():  # there is no home directory
            return None
        cache.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (cache.parent, cache):
            path.mkdir(mode=0o700, exist_ok=True)
            stat = path.lstat()
            is_ours = sys.platform == "win32" or (
                stat.st_uid == os.geteuid() and not stat.st_mode & 0o022
            )
            if path.is_symlink() or not is_ours:
                return None
    except OSError:
        return None
    return cache

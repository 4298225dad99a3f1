"""Read objects in cloud stores: URLs such as s3://bucket/name.zst can be given as text files.

fsspec connects to the stores, takes credentials from each store's own settings, and retries failed
requests. An object is streamed, in ranges, each time its text is needed. So nothing is kept on
disk, and any number of machines can read at once. Nothing is written to a store.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar

from transformer_cli.base.errors import CorpusError, MissingExtraError
from transformer_cli.base.locations import Location, text_path
from transformer_cli.base.packages import import_extra
from transformer_cli.base.text_files import Reader
from transformer_cli.extensions.stores.addresses import hide_credentials

T = TypeVar("T")
# Bytes per request: enough to outweigh the time to reach the store.
_BLOCK_BYTES = 16 << 20
_REQUESTS = 16
"""The maximum number of simultaneous requests for information about objects."""
_MOST_SECONDS = 600
"""How long a store may take to answer, in seconds; for a read of one block, that is 28 KB/s."""
_READ_BYTES = 1 << 20
_VERSIONS = ("ETag", "etag", "blob_id", "mtime")
"""The keys under which S3, Google and Azure, the Hub and file systems give an object's version."""
_MAX_OBJECTS = 100_000


class Objects(Location):
    """The ``Location`` of objects in S3, Google Cloud and all other stores that fsspec supports."""

    def open(self, path: Path, once: bool = False) -> BinaryIO:
        with _naming_errors(path):
            store, name = _find_store(path)
            how = {"block_size": _BLOCK_BYTES, "cache_type": "readahead"}
            file = call_in_time(_MOST_SECONDS, store.open, name, "rb", **how)
        if getattr(file, "details", {}).get("type") == "directory":
            problem = f"is a directory of objects, not an object; name the objects: {path}/*"
            raise CorpusError(f"{path}: {problem}")
        return io.BufferedReader(_ObjectReader(file, partial(_naming_errors, path)), _READ_BYTES)

    def sizes(self, paths: Sequence[Path]) -> list[int]:
        sizes = []
        for path, info in zip(paths, _find_infos(paths), strict=True):
            with _naming_errors(path):
                if info is None:
                    raise FileNotFoundError
            sizes.append(int(info["size"] or 0))
        return sizes

    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        return [
            None if info is None else _find_version(info) or str(info)
            for info in _find_infos(paths)
        ]

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        if not any(wildcard in str(path) for wildcard in "*?"):
            return (path,)
        with _naming_errors(path):
            store, name = _find_store(path)
            names = re.sub(r"\*+", "*", name).replace("[", "[[]")
            found = call_in_time(_MOST_SECONDS, store.glob, names, detail=True)
        scheme = str(path).partition("://")[0]
        urls = [
            name if "://" in name else f"{scheme}://{name.lstrip('/')}"
            for name, info in found.items()
            if info["type"] == "file"
        ]
        if len(urls) > _MAX_OBJECTS:
            problem = f"{len(urls):,} objects match, more than {_MAX_OBJECTS:,}"
            raise CorpusError(f"{path}: {problem}; join them into larger ones, or name fewer")
        if not urls:
            raise CorpusError(f"{path}: no object matches; check the URL")
        # Do not trust a store's listing, because it might lead elsewhere.
        try:
            return tuple(text_path(url) for url in sorted(urls) if is_match(url, str(path)))
        except ValueError as error:
            problem = f"matches an object with an unusable name; {error}"
            raise CorpusError(f"{path}: {problem}") from None


OBJECTS = Objects()


def is_match(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern; the wildcards * and ? do not match slashes."""
    # If both have the same number of slashes, the wildcards match none.
    has_as_many = name.count("/") == pattern.count("/")
    return has_as_many and fnmatchcase(name, pattern.replace("[", "[[]"))


def _find_version(info: Mapping[str, Any]) -> str | None:
    """Return an object's version from a store's information about it, or None if there is none."""
    version = next((info[key] for key in _VERSIONS if info.get(key)), None)
    return None if version is None else f"{info['size']} {version}"


def _find_infos(paths: Sequence[Path]) -> list[dict[str, Any] | None]:
    """Return the stores' information about objects, or None for each missing object.

    There is one request per object, or per page of the listing if a directory has many of them.
    """
    from concurrent.futures import ThreadPoolExecutor  # imports logging: 10 ms, rarely needed

    stores: dict[Path, Any] = {}
    listed: dict[Path, dict[str, Any]] = {}
    numbers = Counter(path.parent for path in paths)
    for directory, path in {path.parent: path for path in paths}.items():
        with _naming_errors(path):
            store, name = _find_store(path)
            is_listed = numbers[directory] > _REQUESTS
            found = _list(store, store._parent(name)) if is_listed else []
        stores[directory] = store
        listed[directory] = {each["name"]: each for each in found if _find_version(each)}

    def ask(path: Path) -> dict[str, Any] | None:
        store = stores[path.parent]
        name = store._strip_protocol(str(path))
        with _naming_errors(path), suppress(FileNotFoundError):
            known = listed[path.parent].get(name)
            return known or dict(call_in_time(_MOST_SECONDS, store.info, name))
        return None

    with ThreadPoolExecutor(_REQUESTS) as requests:
        return list(requests.map(ask, paths))


def _list(store: Any, directory: str) -> list[dict[str, Any]]:
    """Return a store's information about a directory's objects; [] if listing is not allowed."""
    try:
        return list(call_in_time(_MOST_SECONDS, store.ls, directory, detail=True))
    except TimeoutError:
        raise
    except Exception:  # read permission does not include listing
        return []


def _find_store(path: Path) -> tuple[Any, str]:
    """Return an object's store, after emptying its cache of listings, and the object's name."""
    fsspec = import_extra("fsspec", "objects", str(path))
    store, name = fsspec.url_to_fs(str(path))
    store.invalidate_cache()
    return store, name


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn any library error into a CorpusError or MissingExtraError that names the object."""
    try:
        yield
    except (CorpusError, MissingExtraError):
        raise
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: there is no such object or bucket; check the URL") from error
    except Exception as error:
        missing = getattr(error.__cause__, "name", None)
        if isinstance(error, ImportError) and missing:
            problem = f"needs the package {missing}, which is not installed; pip install {missing}"
            raise MissingExtraError(f"{path}: {problem}") from error
        reason = hide_credentials(" ".join(str(error).split()))[:200] or type(error).__name__
        raise CorpusError(
            f"{path}: cannot be read ({reason}); check the URL, the network, and the credentials "
            "in the store's own settings or the environment"
        ) from error


def call_in_time(seconds: float, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that waits for a server; raise TimeoutError if it takes too long.

    All downloads use this function, because their libraries' timeouts restart with each byte. The
    call runs in a thread, which is abandoned after ``seconds``.
    """
    from concurrent.futures import Future  # imports logging: 10 ms, rarely needed

    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(call(*args, **kwargs))
        except BaseException as error:
            result.set_exception(error)

    Thread(target=work, daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        if result.done():  # the call itself raised it
            raise
        raise TimeoutError(f"the server is too slow: it took over {seconds:g} s") from None


class SeekableReader(Reader):
    """A wrapper around another library's open file that can be read from any position."""

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        with self._naming_errors():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())


class _ObjectReader(SeekableReader):
    """A reader of an open object in which each read has a time limit."""

    def _read(self, size: int) -> bytes:
        return call_in_time(_MOST_SECONDS, super()._read, size)

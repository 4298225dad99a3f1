"""Objects: text in a store, as s3://bucket/name.zst, wherever a file of text may stand.

fsspec knows the stores, takes credentials from each store's own settings, and tries again what
fails. An object is read as a stream, by ranges, each time that its text is asked for: nothing of it
is kept on a disk, and any number of machines reads at once. It is written as a local file first,
and uploaded as a whole.
"""

import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar

from transformer_cli.base.errors import (
    CorpusError,
    MissingExtraError,
    OutputError,
    UsageError,
    begins_with_web_scheme,
    hide_credentials,
    shorten_middle,
)
from transformer_cli.base.packages import import_extra

T = TypeVar("T")
# What is asked for at a time: enough to outweigh the way to the store and back.
_BLOCK_BYTES = 16 << 20
_REQUESTS = 16
"""How many are under way at once, where each of many objects takes one."""
_MOST_SECONDS = 600
"""How long a store may take to answer. Each read asks for at most one block, which is 28 KB/s."""
_READ_BYTES = 1 << 20
_VERSIONS = ("ETag", "etag", "blob_id", "mtime")
"""Of S3; of Google and Azure; of the Hub; of stores that are file systems."""
_MAX_OBJECTS = 100_000
_MAX_NAME = 2048
_LOCAL = ("file", "local")
_WITH_BUCKETS = ("s3:", "s3a:", "gs:", "gcs:")


class ObjectPath(type(Path())):  # type: ignore[misc]
    """The URL of an object; ``text_path`` makes it.

    It can do what any path can do without a disk. Where a file is needed, it is an error for the
    user.
    """

    __slots__ = ()

    def __str__(self) -> str:
        store, *names = self.parts
        return f"{store}//{'/'.join(names)}"

    def __fspath__(self) -> str:
        raise UsageError(f"{self}: is an object in a store, where a file is needed; copy it to one")

    def __reduce__(self) -> tuple[type["ObjectPath"], tuple[str]]:
        return ObjectPath, (str(self),)

    def as_posix(self) -> str:
        """Return the URL, on Windows too."""
        return str(self)

    def absolute(self) -> "ObjectPath":
        """Return itself."""
        return self

    def resolve(self, strict: bool = False) -> "ObjectPath":
        """Return itself."""
        return self


def text_path(text: str) -> Path:
    """Return the path of a file or of an object; raise ValueError for a URL that cannot be one."""
    scheme, is_url, name = text.partition("://")
    compact = "".join(text.split())
    if is_url and len(compact) > _MAX_NAME:
        raise ValueError(f"a URL of {len(compact):,} characters is too long")
    # Before any message that shows it. The name of a file may look like a login or a query.
    is_address = is_url or (begins_with_web_scheme(compact) and not _is_there(text))
    if is_address and hide_credentials(compact) != compact:
        problem = "has a password or a key, which records would keep; leave it to the store's own "
        problem += "settings, such as ~/.aws or the environment"
        if not is_url or scheme in ("http", "https"):
            problem = "has a login or a query (?…, ;… or #…), which records would keep; "
            problem += "download the file, and name its path"
        begins = f"that begins with {scheme[:20]}://" if is_url else "without ://"
        raise ValueError(f"a URL {begins} {problem}")
    if not is_url:
        return Path(text)
    parts = name.removesuffix("/").split("/")
    if "::" in text or not re.fullmatch("[a-z][a-z0-9+.-]*", scheme):
        problem = "is no plain URL of an object, such as s3://bucket/name.zst"
    elif scheme in _LOCAL:
        problem = "is a file's; write its path alone"
    elif not set(parts).isdisjoint(("", ".", "..")) or re.search(r"[\x00-\x1f\x7f]", text):
        problem = "has a part that is empty, . or .., or a control character"
    else:
        return ObjectPath(text)
    raise ValueError(f"{shorten_middle(text, 200)}: {problem}")


def _is_there(name: str) -> bool:
    return os.path.exists(name)  # noqa: PTH110 - Path.exists raises an error if it is too long


def split_web_url(path: Path) -> tuple[str, str] | None:
    """Return the URL of a file of the web, and a name in it if that is a zip archive.

    None: the path is none of http or https.
    """
    if not isinstance(path, ObjectPath) or path.parts[0] not in ("http:", "https:"):
        return None
    names = path.parts[2:]
    ends = (place for place, name in enumerate(names, start=3) if name.lower().endswith(".zip"))
    end = next(ends, len(path.parts))
    return str(ObjectPath(*path.parts[:end])), "/".join(path.parts[end:])


def open_object(path: ObjectPath) -> BinaryIO:
    """Open an object to read it; it raises CorpusError whenever it cannot be read."""
    with _naming_errors(path):
        store, name = _find_store(path)
        how = {"block_size": _BLOCK_BYTES, "cache_type": "readahead"}
        file = call_in_time(_MOST_SECONDS, store.open, name, "rb", **how)
    if getattr(file, "details", {}).get("type") == "directory":
        raise CorpusError(f"{path}: is no object, but has some below it; name them, as {path}/*")
    return io.BufferedReader(_Reader(path, file), _READ_BYTES)


def call_in_time(seconds: float, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call what waits for a server; raise TimeoutError if that takes too long.

    All downloads wait here, because the timeouts of their libraries begin again with each byte.
    The call is made in a thread, which is left behind if it takes too long.
    """
    from concurrent.futures import Future  # with logging: 10 ms, which few need

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
        if result.done():  # it is the call's own
            raise
        raise TimeoutError(f"the server is too slow: it took over {seconds:g} s") from None


def match_objects(pattern: ObjectPath) -> tuple[ObjectPath, ...]:
    """Return the objects that match a URL with the wildcards * and ?, sorted.

    Raises:
        CorpusError: the store cannot be asked, or too many objects match.
        MissingExtraError: the package that knows the store is not installed.
    """
    with _naming_errors(pattern):
        store, name = _find_store(pattern)
        names = re.sub(r"\*+", "*", name).replace("[", "[[]")
        found = call_in_time(_MOST_SECONDS, store.glob, names, detail=True)
    scheme = str(pattern).partition("://")[0]
    urls = [
        name if "://" in name else f"{scheme}://{name.lstrip('/')}"
        for name, info in found.items()
        if info["type"] == "file"
    ]
    if len(urls) > _MAX_OBJECTS:
        problem = f"{len(urls):,} objects match, more than {_MAX_OBJECTS:,}"
        raise CorpusError(f"{pattern}: {problem}; join them to larger ones, or name fewer")
    # A store's listing is not trusted: it might lead elsewhere.
    matching = compile_wildcards(str(pattern))
    try:
        paths = [text_path(url) for url in sorted(urls) if matching.fullmatch(url)]
    except ValueError as error:
        raise CorpusError(f"{pattern}: matches what no file can be named like; {error}") from None
    return tuple(path for path in paths if isinstance(path, ObjectPath))


def compile_wildcards(pattern: str) -> re.Pattern[str]:
    """Return a pattern with * and ?, groups that match no slash, as a regular expression."""
    wildcards = {"*": "([^/]*)", "?": "([^/])"}
    parts = re.split("([*?])", re.sub(r"\*+", "*", pattern))
    return re.compile("".join(wildcards.get(part) or re.escape(part) for part in parts))


def object_keys(paths: Sequence[ObjectPath]) -> list[str | None]:
    """Return what changes with each object, such as its size and ETag; None: there is none.

    Raises what ``match_objects`` does.
    """
    return [
        None if info is None else _find_version(info) or str(info) for info in _find_infos(paths)
    ]


def object_sizes(paths: Sequence[ObjectPath]) -> list[int]:
    """Return the bytes of each object, without reading it; CorpusError: there is none."""
    sizes = []
    for path, info in zip(paths, _find_infos(paths), strict=True):
        with _naming_errors(path):
            if info is None:
                raise FileNotFoundError
        sizes.append(int(info["size"] or 0))
    return sizes


def _find_version(info: Mapping[str, Any]) -> str | None:
    """Return what a listing and the object itself say alike, and what changes with it."""
    version = next((info[key] for key in _VERSIONS if info.get(key)), None)
    return None if version is None else f"{info['size']} {version}"


def _find_infos(paths: Sequence[ObjectPath]) -> list[dict[str, Any] | None]:
    """Return what stores say of objects; None: there is none.

    One request is for an object, or for a page of a directory's listing where many are asked for.
    """
    if not paths:
        return []
    from concurrent.futures import ThreadPoolExecutor  # with logging: 10 ms, which few need

    stores: dict[Path, Any] = {}
    listed: dict[Path, dict[str, Any]] = {}
    numbers = Counter(path.parent for path in paths)
    for directory, path in {path.parent: path for path in paths}.items():
        with _naming_errors(path):
            store, name = _find_store(path)
        stores[directory], listed[directory] = store, {}
        if numbers[directory] > _REQUESTS:
            with _naming_errors(path):
                found = _list(store, store._parent(name))
            listed[directory] = {each["name"]: each for each in found if _find_version(each)}

    def ask(path: ObjectPath) -> dict[str, Any] | None:
        store = stores[path.parent]
        name = store._strip_protocol(str(path))
        with _naming_errors(path), suppress(FileNotFoundError):
            known = listed[path.parent].get(name)
            return known or dict(call_in_time(_MOST_SECONDS, store.info, name))
        return None

    with ThreadPoolExecutor(_REQUESTS) as requests:
        return list(requests.map(ask, paths))


def _list(store: Any, directory: str) -> list[dict[str, Any]]:
    """Return what a store says of the objects in a directory; nothing if it does not allow that."""
    try:
        return list(call_in_time(_MOST_SECONDS, store.ls, directory, detail=True))
    except TimeoutError:
        raise
    except Exception:  # who may read need not be allowed to list
        return []


@contextmanager
def whole_object(
    path: ObjectPath, check: Callable[[Path], object] = lambda path: None
) -> Iterator[Path]:
    """Give a temporary file to fill; it becomes the object when the block ends well.

    If it cannot be uploaded, or ``check`` raises OutputError, that says where the file is: it may
    have taken hours.
    """
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="transformer-cli-"))
    temporary, is_kept = directory / "object", False
    try:
        yield temporary
        try:
            check(path)
            with _naming_errors(path, OutputError):
                store, name = _find_store(path)
                store.put_file(str(temporary), name)
        except OutputError as error:
            is_kept = True
            raise OutputError(f"{error}; what was to be written is kept in {temporary}") from error
    finally:
        if not is_kept:
            shutil.rmtree(directory, ignore_errors=True)


def check_store(path: ObjectPath) -> None:
    """Make sure, before long work, that an object's store and bucket are there; raise OutputError.

    Whether the object can be written is found out only then.
    """
    with _naming_errors(path, OutputError), suppress(PermissionError):  # who may write, perhaps
        store, name = _find_store(path)
        if path.parts[0] in _WITH_BUCKETS:
            call_in_time(_MOST_SECONDS, store.info, name.partition("/")[0])


def _find_store(path: ObjectPath) -> tuple[Any, str]:
    """Return a store, as it is now, and the object's name in it."""
    fsspec = import_extra("fsspec", "objects", str(path))
    store, name = fsspec.url_to_fs(str(path))
    store.invalidate_cache()
    return store, name


@contextmanager
def _naming_errors(
    path: ObjectPath, kind: type[CorpusError | OutputError] = CorpusError
) -> Iterator[None]:
    """Turn errors of any store's library into one that names the object."""
    try:
        yield
    except (CorpusError, MissingExtraError):
        raise
    except FileNotFoundError as error:
        raise kind(f"{path}: there is no such object or bucket; check the URL") from error
    except Exception as error:
        missing = getattr(error.__cause__, "name", None)
        if isinstance(error, ImportError) and missing:
            problem = f"needs the package {missing}, which is not installed; pip install {missing}"
            raise MissingExtraError(f"{path}: {problem}") from error
        reason = hide_credentials(" ".join(str(error).split()))[:200] or type(error).__name__
        done = "read" if kind is CorpusError else "written"
        raise kind(
            f"{path}: cannot be {done} ({reason}); check the URL, the network, and the credentials "
            "in the store's own settings or the environment"
        ) from error


class _Reader(io.RawIOBase):
    """An open object whose errors name it."""

    def __init__(self, path: ObjectPath, file: Any) -> None:
        self._path = path
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        with _naming_errors(self._path):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with _naming_errors(self._path):
            data = call_in_time(_MOST_SECONDS, self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

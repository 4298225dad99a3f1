"""Fetch files from the web into the user's cache, once each; resume and verify downloads.

Files in the cache are named after their checksums. Requested URLs contain no secrets, because
``check_address`` refuses those that do, but the URLs of redirects may contain some.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from transformer_cli.base.artifact import Artifact, Record, read_record, write_record
from transformer_cli.base.errors import CorpusError, make_visible
from transformer_cli.base.files import cache_directory, sha256 as sum_of
from transformer_cli.base.locations import UrlPath, find_files
from transformer_cli.base.messages import size
from transformer_cli.base.writing import remove_directory, remove_leftovers
from transformer_cli.extensions.stores.addresses import hide_credentials
from transformer_cli.extensions.stores.objects import Objects, call_in_time

if TYPE_CHECKING:
    from requests import Response

# Seconds to connect to one address, of which a server may have several, and to wait for bytes.
TIMEOUT = (5.0, 30.0)
_CHUNK_BYTES = 1 << 18
CHUNK_SECONDS = 60.0
"""How long a server may take to begin its answer, or to send each 256 KB chunk of it (4 KB/s)."""
_SPARE_BYTES = 64 << 20
"""The number of bytes to leave free on the cache's disk."""
_CHECK_URL = "check the URL, and whether the file has moved"
_OTHER_DISK = "free some, or set TRANSFORMER_CLI_CACHE to a directory on another disk"

Say = Callable[[str], object]


def tell(message: str) -> None:
    """Write a message to stderr, without the credentials in its URLs."""
    with suppress(OSError):  # stderr may be closed
        print(hide_credentials(make_visible(message)), file=sys.stderr)


def fetch(url: str, sha256: str | None = None, say: Say = tell, advice: str = _CHECK_URL) -> Path:
    """Return the path of a web file in the user's cache; fetch the file if it is not there.

    An interrupted fetch is resumed if the server still has the same version of the file. If several
    processes need the file at the same time, only one fetches it.

    Args:
        url: an https URL, or an http URL to this machine or with ``sha256``.
        sha256: the file's expected checksum, in hexadecimal; None: accept any file.
        say: called with messages, e.g. about the file's size.
        advice: what the error message advises if the server has no such file.

    Raises:
        CorpusError: the file cannot be fetched, has another checksum, or does not fit on the disk.
    """
    from filelock import FileLock, Timeout

    if found := find(url, sha256):
        return found
    place = _cache() / _digest(url)
    with _naming_errors(url, place.parent, advice):
        _check_url(url, sha256)
        # As for CTranslate2's conversions, only the user may write here.
        place.parent.parent.parent.mkdir(parents=True, exist_ok=True)
        for directory in (place.parent.parent, place.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(place.with_suffix(".lock"))
        try:
            held = lock.acquire(timeout=1)
        except Timeout:
            say(f"{url}: waiting for another process that is fetching it")
            held = lock.acquire()
        with held:
            if found := find(url, sha256):  # another process has fetched it
                return found
            remove_leftovers(place.parent)
            _download(url, sha256, place, say, advice)
            return _keep(url, sha256, place, say)


def find(url: str, sha256: str | None = None) -> Path | None:
    """Return a web file's path in the user's cache, or None if it is missing or damaged there."""
    if sha256 is None:
        if (known := read_record(_cache() / f"{_digest(url)}.json", Record)) is None:
            return None
        sha256 = known.made_of["sha256"]
    kept = _kept(url, sha256)
    record = kept.read()
    return None if record is None or kept.find_damage(record) else kept.path / _name(url)


class WebFiles(Objects):
    """The ``Location`` of web files; training text is fetched first, other text is streamed."""

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        url, name = _split(path)
        if "*" in url or "?" in url:
            problem = "* and ? are wildcards for files in a zip archive only; give the URL of one "
            raise CorpusError(f"{path}: {problem}file")
        return find_files(fetch(url, sha256) / name)

    def fetched_from(self, path: Path) -> str:
        return _split(path)[0]

    def is_here(self, path: Path, sha256: str | None = None) -> bool:
        return find(_split(path)[0], sha256) is not None


WEB = WebFiles()


def _split(path: Path) -> tuple[str, str]:
    """Split a path into the URL to fetch and, if that is a zip archive, a file's name in it."""
    names = path.parts[2:]
    ends = (place for place, name in enumerate(names, start=3) if name.lower().endswith(".zip"))
    end = next(ends, len(path.parts))
    return str(UrlPath(*path.parts[:end])), "/".join(path.parts[end:])


def _cache() -> Path:
    return cache_directory("fetched").absolute()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(url: str, sha256: str) -> Artifact[Record]:
    """Return the ``Artifact`` of a cached file, whose path depends on its checksum and name."""
    return Artifact(_cache() / _digest(f"{sha256} {_name(url)}"), Record, ".fetched.json")


def _name(url: str) -> str:
    name = unquote(re.split("[?#]", url)[0]).rpartition("/")[2]
    return re.sub(r"[^\w.@+=-]", "_", name)[-60:].lstrip(".") or "file"


# --- what may be asked for ------------------------------------------------------------------------


def _check_url(url: str, sha256: str | None, before: str = "") -> None:
    """Raise CorpusError unless ``url`` is safe to read; ``before`` is the URL that redirects to it.

    ValueError is raised if the URL is not valid.
    """
    if "\\" in url:  # requests might find another host after it than we do
        raise ValueError
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    may_be_http = scheme == "http" and not before.startswith("https:")
    if (scheme == "https" and host) or (may_be_http and (sha256 is not None or _is_local(host))):
        return
    problem = "only https URLs are fetched"
    if may_be_http:
        problem = "plain http can be tampered with; use https, or give the file's sha256"
    led = f"{hide_credentials(before)}: the server redirects to " if before else ""
    raise CorpusError(f"{led}{hide_credentials(url)}: {problem}")


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


# --- fetching -------------------------------------------------------------------------------------


def _download(url: str, sha256: str | None, place: Path, say: Say, advice: str) -> None:
    """Fetch a file, or what is missing of it, to ``place`` with the file extension .part."""
    import requests

    part = place.with_suffix(".part")
    record = read_record(place.with_suffix(".part.json"), Record)
    known = {} if record is None else record.made_of  # the version that the fetched part is from
    have = part.stat().st_size if known and part.is_file() else 0
    if have and str(have) == known["size"]:
        return

    def check(response: "Response", **_: object) -> None:
        if response.is_redirect:
            target = urljoin(response.url, response.headers["location"])
            _check_url(target, sha256, before=response.url)
        # Otherwise requests would decompress a .gz that its server declares as compressed text.
        response.raw.headers.pop("Content-Encoding", None)

    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": known["version"]}
    how = {"headers": headers, "stream": True, "timeout": TIMEOUT, "hooks": {"response": check}}
    response = call_in_time(CHUNK_SECONDS, requests.get, url, **how)
    with _closing(response):
        goes_on = bool(have) and _goes_on(response, known, have)
        if have and not goes_on and response.status_code in (206, 416):  # another version
            part.unlink()
            _download(url, sha256, place, say, advice)
            return
        if response.status_code != 200 and not goes_on:
            raise requests.HTTPError(response=response)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if sha256 is None and (is_page or response.headers.get("Content-Length") == "0"):
            sent = "a web page" if is_page else "an empty file"
            raise CorpusError(f"{url}: could not be fetched: the server sent {sent}; {advice}")
        _write(response, url, place, have if goes_on else 0, say)


@contextmanager
def _closing(response: "Response") -> Iterator[None]:
    """Close a response at the end, unless a thread may still read it: closing would then hang."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, TimeoutError):
            response.close()
        raise
    response.close()


def _goes_on(response: "Response", known: dict[str, str], have: int) -> bool:
    """Return whether a response continues the ``known`` version of a file after ``have`` bytes."""
    rest = f"bytes {have}-{int(known['size']) - 1}/{known['size']}"
    is_rest = response.status_code == 206 and response.headers.get("Content-Range") == rest
    return is_rest and _version(response) in ("", known["version"])


def _version(response: "Response") -> str:
    """Return an identifier of the file's version, or '' if the server does not give one."""
    tag = str(response.headers.get("ETag", "W/"))
    return str(response.headers.get("Last-Modified", "")) if tag.startswith("W/") else tag


def _write(response: "Response", url: str, place: Path, have: int, say: Say) -> None:
    """Append a response to the ``have`` bytes that are already on disk."""
    import requests
    from tqdm import tqdm

    rest = response.headers.get("Content-Length", "")
    total = have + int(rest) if rest.isdecimal() else None
    room = max(0, shutil.disk_usage(place.parent).free - _SPARE_BYTES)
    too_large = f"more than the {size(room)} to spare on the disk of {place.parent}; {_OTHER_DISK}"
    if total is not None and total - have > room:
        raise CorpusError(f"{url}: needs {size(total - have)}, {too_large}")
    part, record = place.with_suffix(".part"), place.with_suffix(".part.json")
    if not have:
        part.unlink(missing_ok=True)
        record.unlink(missing_ok=True)
        if total is not None and (version := _version(response)):
            write_record(record, Record(made_of={"version": version, "size": str(total)}))
    known = "a file of unknown size" if total is None else size(total)
    resumed = f", {size(have)} of them already here," if have else ""
    say(f"{url}: fetching {known}{resumed} to {place.parent}")
    with (
        part.open("ab") as file,
        tqdm(
            desc=_name(url),
            total=total,
            initial=have,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=None,  # disabled unless stderr is a terminal
            file=sys.stderr,
        ) as bar,
    ):
        chunks = response.iter_content(_CHUNK_BYTES)
        while chunk := call_in_time(CHUNK_SECONDS, next, chunks, b""):
            bar.update(file.write(chunk))
            if file.tell() - have > room:
                file.truncate(0)
                raise CorpusError(f"{url}: needs {too_large}")
        if total is not None and file.tell() != total:  # urllib3 1 does not notice this
            raise requests.ConnectionError
        file.flush()
        os.fsync(file.fileno())


def _keep(url: str, sha256: str | None, place: Path, say: Say) -> Path:
    """Move a fetched file into the cache if its checksum is right, and return its path."""
    part = place.with_suffix(".part")
    found = sum_of(part)
    if sha256 not in (None, found):
        part.unlink()
        raise CorpusError(
            f"{url}: not the expected file (its SHA-256 begins {found[:12]}, not "
            f"{str(sha256)[:12]}), so it was not kept; check the URL and the checksum, and whether "
            "there is a new version"
        )
    record = Record(made_of={"url": url, "sha256": found})
    if (kept := find(url, found)) is None:
        artifact = _kept(url, found)
        if artifact.path.is_dir():
            remove_directory(artifact.path)  # it is damaged

        def add(directory: Path) -> Record:
            try:
                (directory / _name(url)).hardlink_to(part)  # an interruption then costs nothing
            except (OSError, NotImplementedError):  # the file system does not support links
                part.replace(directory / _name(url))
            return record

        artifact.make(add)
        kept = artifact.path / _name(url)
    write_record(place.with_suffix(".json"), record)
    for left in (".part", ".part.json"):
        place.with_suffix(left).unlink(missing_ok=True)
    if sha256 is None:
        say(f"{kept}: sha256: {found}")
    return kept


@contextmanager
def _naming_errors(url: str, cache: Path, advice: str) -> Iterator[None]:
    """Turn errors of the connection or the disk into a CorpusError that names the URL."""
    import requests

    try:
        yield
    except requests.HTTPError as error:
        status = 0 if error.response is None else error.response.status_code
        is_busy = status >= 500 or status == 429
        problem = f"the server answered {status}; {'try again later' if is_busy else advice}"
    except requests.TooManyRedirects:
        problem = "the server redirects without end; check the URL"
    except ValueError:  # requests and urllib3 raise it, too
        problem = "the URL, or one that it redirects to, is not valid; check it"
    except requests.RequestException as error:
        problem = f"the connection failed ({type(error).__name__}); run the command again"
        problem += " to resume"
    except TimeoutError as error:
        problem = f"{error} for {_CHUNK_BYTES >> 10} KB or less; run the command again to resume"
    except OSError as error:
        reason = error.strerror or error
        problem = f"cannot be written to {cache} ({reason}); if its disk is full, {_OTHER_DISK}"
    else:
        return
    raise CorpusError(f"{url}: could not be fetched: {problem}")

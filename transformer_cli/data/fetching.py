"""Files of the web: fetched once into the user's cache, resumed, verified, kept by their sums."""

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

from pydantic import BaseModel, ConfigDict

from transformer_cli.artifact import Artifact, Record, read_record, write_record
from transformer_cli.errors import CorpusError, hide_credentials, make_visible, size
from transformer_cli.files import (
    cache_directory,
    remove_directory,
    remove_leftovers,
    sha256 as sum_of,
)
from transformer_cli.objects import split_web_url

if TYPE_CHECKING:
    from requests import Response

# Seconds to connect to one address, of which a server may have several, and to wait for bytes.
TIMEOUT = (5.0, 30.0)
_CHUNK_BYTES = 1 << 16
"""Of which an interruption costs one."""
_SPARE_BYTES = 64 << 20
"""What is left free of a disk."""
_SHOWN = 12
"""Characters of a sum in messages."""
_CHECK_URL = "check the URL, and whether the file has moved"

Say = Callable[[str], object]


class _Part(BaseModel):
    """Which version of a file the beginning is of that came so far."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: str
    """Its ETag, or the time when it was changed."""
    size: int


def _print(message: str) -> None:
    with suppress(OSError):  # nobody reads it
        print(make_visible(message), file=sys.stderr)


def fetch(url: str, sha256: str | None = None, say: Say = _print, advice: str = _CHECK_URL) -> Path:
    """Return a file of the web from the user's cache, where it is fetched to if it is not there.

    What was interrupted goes on where it ended, if the server still has the same file. Processes
    that ask for one file at the same time fetch it once.

    Args:
        url: of https, or of http, to this machine or with ``sha256``.
        sha256: in hexadecimal, what the file must have; None: whatever comes is kept.
        say: is told what is fetched, and how large it is.
        advice: what to do if the server has no such file.

    Raises:
        CorpusError: it cannot be fetched, is another file, or has no room on the disk.
    """
    from filelock import FileLock

    _check_url(url, sha256)
    if found := find(url, sha256):
        return found
    place = _cache() / _digest(url)
    with _naming_errors(url, place.parent, advice):
        # As CTranslate2's conversions are kept only where nobody else may write.
        place.parent.parent.parent.mkdir(parents=True, exist_ok=True)
        for directory in (place.parent.parent, place.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            if found := find(url, sha256):  # another process was faster
                return found
            remove_leftovers(place.parent)
            _download(url, sha256, place, say)
            return _keep(url, sha256, place, say)


def find(url: str, sha256: str | None = None) -> Path | None:
    """Return a file of the web if it is in the user's cache, as it was fetched."""
    if sha256 is None:
        record = read_record(_cache() / f"{_digest(url)}.json", Record)
        sha256 = None if record is None else record.made_of["sha256"]
    if sha256 is None:
        return None
    kept = _kept(url, sha256)
    record = kept.read()
    if record is None or kept.find_damage(record):
        return None
    return kept.path / _name(url)


def local_path(path: Path, sha256: str | None = None) -> Path:
    """Return the path of what a URL of the web names, fetched; any other path as it is.

    Raises what ``fetch`` does.
    """
    if (split := split_web_url(path)) is None:
        return path
    url, name = split
    if "*" in url or "?" in url:
        raise CorpusError(f"{path}: the web has no wildcards but in a zip archive; name each file")
    return fetch(url, sha256) / name


def is_fetched(path: Path, sha256: str | None = None) -> bool:
    """Return whether ``local_path`` would fetch nothing."""
    split = split_web_url(path)
    return split is None or find(split[0], sha256) is not None


def _cache() -> Path:
    return cache_directory("fetched").absolute()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(url: str, sha256: str) -> Artifact[Record]:
    """Return where a file is kept: by its sum, and the name that says what it is."""
    return Artifact(_cache() / _digest(f"{sha256} {_name(url)}"), Record, ".fetched.json")


def _name(url: str) -> str:
    name = unquote(urlsplit(url).path).rpartition("/")[2]
    return re.sub(r"[^\w.@+=-]", "_", name)[-100:].lstrip(".") or "file"


# --- what may be asked for ------------------------------------------------------------------------


def _check_url(url: str, sha256: str | None, before: str = "") -> None:
    """Raise CorpusError for a URL that is not safe to read, perhaps after one that led there."""
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    if scheme == "https" and host:
        return
    is_downgraded = before.startswith("https:")
    if scheme == "http" and not is_downgraded and (sha256 is not None or _is_local(host)):
        return
    shown, led = hide_credentials(url)[:200], "the server leads to " * bool(before)
    if scheme == "http" and not is_downgraded:
        problem = "http can be tampered with on its way; take https, or say the file's sha256"
    else:
        problem = "only https is followed from https" if before else "only https URLs are fetched"
    raise CorpusError(f"{before and f'{before}: '}{led}{shown}: {problem}")


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


# --- fetching -------------------------------------------------------------------------------------


def _download(url: str, sha256: str | None, place: Path, say: Say) -> None:
    """Fetch what is missing of a file, beside ``place``."""
    import requests

    part = place.with_suffix(".part")
    known = read_record(place.with_suffix(".part.json"), _Part)
    known = known if part.is_file() else None
    have = 0 if known is None else part.stat().st_size
    if known is not None and have == known.size:
        return

    def check(response: "Response", **_: object) -> None:
        if response.is_redirect:
            target = urljoin(response.url, response.headers["location"])
            _check_url(target, sha256, before=response.url)

    headers = {"Accept-Encoding": "identity"}  # or it might be decompressed on its way
    if known is not None and have:
        headers |= {"Range": f"bytes={have}-", "If-Range": known.version}
    with requests.get(
        url, headers=headers, stream=True, timeout=TIMEOUT, hooks={"response": check}
    ) as response:
        if not have or response.status_code != 416:  # it is shorter now than what is there
            response.raise_for_status()
        if known is not None and have and not _goes_on(response, known, have):
            part.unlink()  # it is of another version
            if response.status_code != 200:
                _download(url, sha256, place, say)
                return
            have = 0
        _write(response, url, place, have, say)


def _goes_on(response: "Response", known: _Part, have: int) -> bool:
    """Return whether what comes is the rest of the version that is known."""
    return (
        response.status_code == 206
        and response.headers.get("Content-Range") == f"bytes {have}-{known.size - 1}/{known.size}"
        and _version(response) in ("", known.version)
    )


def _version(response: "Response") -> str:
    """Return what is another for another version of the file; '': nothing that can be used."""
    tag = str(response.headers.get("ETag", "W/"))
    return str(response.headers.get("Last-Modified", "")) if tag.startswith("W/") else tag


def _write(response: "Response", url: str, place: Path, have: int, say: Say) -> None:
    """Write what comes behind the ``have`` bytes that are there."""
    from tqdm import tqdm

    rest = response.headers.get("Content-Length", "")
    total = have + int(rest) if rest.isdecimal() else None
    free = shutil.disk_usage(place.parent).free - _SPARE_BYTES
    if total is not None and total - have > free:
        raise _no_room(url, size(total - have), place.parent, free)
    part, record = place.with_suffix(".part"), place.with_suffix(".part.json")
    if not have:
        part.unlink(missing_ok=True)
        record.unlink(missing_ok=True)
        if total is not None and (version := _version(response)):
            write_record(record, _Part(version=version, size=total))
    known = "of unknown size" if total is None else size(total)
    gone_on = f", of which {size(have)} are there" if have else ""
    say(f"{hide_credentials(url)}: fetching {known}{gone_on}, to {place.parent}")
    with (
        part.open("ab") as file,
        tqdm(
            desc=_name(url),
            total=total,
            initial=have,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=None,  # unless stderr is a terminal
            file=sys.stderr,
        ) as bar,
    ):
        for chunk in response.iter_content(_CHUNK_BYTES):
            free -= file.write(chunk)
            bar.update(len(chunk))
            if free < 0:
                raise _no_room(url, "more", place.parent, free)
        if total is not None and file.tell() != total:
            raise OSError("it broke off")
        file.flush()
        os.fsync(file.fileno())


def _no_room(url: str, needed: str, cache: Path, free: int) -> CorpusError:
    return CorpusError(
        f"{hide_credentials(url)}: has {needed}, where the disk of {cache} has "
        f"{size(max(free, 0))} to spare; free some, or set TRANSFORMER_CLI_CACHE to a directory "
        "on another"
    )


def _keep(url: str, sha256: str | None, place: Path, say: Say) -> Path:
    """Move what was fetched to where it is kept, if it is what it has to be."""
    part = place.with_suffix(".part")
    found = sum_of(part)
    if sha256 not in (None, found):
        part.unlink()
        raise CorpusError(
            f"{hide_credentials(url)}: what came is another file (its SHA-256 begins "
            f"{found[:_SHOWN]}, not {str(sha256)[:_SHOWN]}), and is not kept; check the URL and "
            "the sum, or whether its publisher has a new version"
        )
    if (kept := find(url, found)) is None:
        artifact = _kept(url, found)
        if artifact.path.is_dir():
            remove_directory(artifact.path)  # it is damaged
        made_of = Record(made_of={"url": url, "sha256": found})

        def move(directory: Path) -> Record:
            part.replace(directory / _name(url))
            return made_of

        artifact.make(move)
        kept = artifact.path / _name(url)
    write_record(place.with_suffix(".json"), Record(made_of={"url": url, "sha256": found}))
    for left in (".part", ".part.json"):
        place.with_suffix(left).unlink(missing_ok=True)
    if sha256 is None:
        say(f"{kept}: sha256: {found}")
    return kept


@contextmanager
def _naming_errors(url: str, cache: Path, advice: str) -> Iterator[None]:
    """Turn errors of the connection and of the disk into one that names the URL."""
    import requests

    try:
        yield
    except requests.HTTPError as error:
        status = 0 if error.response is None else error.response.status_code
        is_busy = status >= 500 or status == 429
        problem = f"the server answered {status}; {'try again later' if is_busy else advice}"
    except requests.TooManyRedirects:
        problem = "the server redirects without end; check the URL"
    except requests.RequestException as error:
        problem = f"no connection, or it broke off ({type(error).__name__}); run the command again"
        problem += ", and it goes on where it ended"
    except OSError as error:
        problem = f"cannot be written to {cache} ({error.strerror or error})"
    else:
        return
    raise CorpusError(f"{hide_credentials(url)}: could not be fetched: {problem}")

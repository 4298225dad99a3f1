"""Recognize URLs that must not be used as the path of a text, and hide secrets in URLs.

All messages go through ``hide_credentials``. A URL that this function would change is refused
before it is recorded. The function also handles mistyped URLs, and takes linear time.
"""

import os
import re

from transformer_cli.base.errors import find_similar, shorten_middle

_MAX_URL = 2048
_OF_FILES = ("file", "local")  # schemes


def check_address(text: str) -> None:
    """Raise ValueError if ``text`` is a URL that must not be used as the path of a text."""
    scheme, has_scheme, name = text.partition("://")
    compact = "".join(text.split())
    if has_scheme and len(compact) > _MAX_URL:
        raise ValueError(f"a URL of {len(compact):,} characters is too long")
    # Check this before any message that shows the URL. A file's name may look like a login or a
    # query.
    url = _URL.match(compact)
    is_file = not has_scheme and os.path.exists(text)  # noqa: PTH110 - long names are no error
    is_address = has_scheme or (url and _is_web(url) and not is_file)
    if is_address and hide_credentials(compact) != compact:
        problem = "has a password or a key, which records would keep; use the store's own "
        problem += "settings instead, such as ~/.aws or the environment"
        if not has_scheme or scheme in ("http", "https"):
            problem = "has a login or a query (?…, ;… or #…), which records would keep; "
            problem += "download the file, and give its path"
        begins = f"that begins with {scheme[:20]}://" if has_scheme else "without ://"
        raise ValueError(f"a URL {begins} {problem}")
    if not has_scheme:
        return
    parts = name.removesuffix("/").split("/")
    if "::" in text or not re.fullmatch("[a-z][a-z0-9+.-]*", scheme):
        problem = "is not a plain URL of an object, such as s3://bucket/name.zst"
    elif scheme in _OF_FILES:
        problem = "is a file's URL; give only its path"
    elif not set(parts).isdisjoint(("", ".", "..")) or re.search(r"[\x00-\x1f\x7f]", text):
        problem = "has a part that is empty, . or .., or a control character"
    else:
        return
    raise ValueError(f"{shorten_middle(text, 200)}: {problem}")


# The beginning of a URL, up to its path; also if mistyped, as https:/, https:\\, https: or https//.
_URL = re.compile(
    r"([a-z0-9]{0,12}:///*|[a-z][a-z0-9]{1,11}:[/\\]+|https?(?::|//))([^/\s]*)", re.IGNORECASE
)
# A port with letters may be a password without its @host; %40 is an @.
_WRONG_HOST = re.compile(r"[^\[\]:]+:(?!\d*$).*|.*%40.*", re.IGNORECASE)
_MARK = re.compile("[?;#]")
_PARAMETER = re.compile(r"[?&;#][\w.%-]+=")


def hide_credentials(text: str) -> str:
    """Return the text with logins, queries, parameters and fragments removed from its URLs."""
    return re.sub(r"\S+", lambda word: _hide_in_word(word[0]), text)


def _is_web(url: re.Match[str]) -> bool:
    """Return whether a URL begins with http: or https:, also if that is mistyped."""
    return find_similar(url[1].rstrip(":/\\").lower(), ("http", "https")) is not None


def _hide_in_word(word: str) -> str:
    urls = list(_URL.finditer(word))
    if not urls:
        return _hide_bare_login(word)
    before, rest = _hide_bare_login(word[: urls[0].start()]), word[urls[0].start() :]
    last_at = word.rfind("@")
    for url in urls:
        if url.end(1) <= last_at and _has_login(url[2], _is_web(url)):
            rest = f"{word[urls[0].start() : url.end(1)]}…{word[last_at:]}"
            break
        if _is_web(url) and _WRONG_HOST.fullmatch(url[2].rstrip("'\":,.)")):
            rest = f"{word[urls[0].start() : url.end(1)]}…{word[url.end() :]}"
            break
    return before + _hide_parameters(rest)


def _has_login(authority: str, is_web: bool) -> bool:
    """Return whether a URL's authority has a secret, given that there is an @ in or after it."""
    login, at, _ = authority.rpartition("@")
    if at:  # a name alone is a token in a web URL, but only a name in sftp://me@host
        return is_web or ":" in login
    # A password may have a slash; a port has only digits.
    _, colon, port = authority.partition("]:" if authority.startswith("[") else ":")
    return bool(colon) and not port.isdecimal()


def _hide_parameters(word: str) -> str:
    """Return a word that begins with a URL, with all parameters of the URL hidden."""
    kept = word.rstrip("'\":,.)")  # punctuation of the sentence around it
    web = next(filter(_is_web, _URL.finditer(kept)), None)
    begin = web.end(1) if web else 0
    mark = _MARK.search(kept, begin) if web else None
    # In the names of other stores and of zip archives, ? is a wildcard.
    if mark is None or ".zip/" in kept[begin : mark.start()].lower():
        mark = _PARAMETER.search(kept, begin)
    if mark is None or mark.end() == len(kept):
        return word
    return f"{kept[: mark.end()]}…{word[len(kept) :]}"


def _hide_bare_login(word: str) -> str:
    """Return a word that has no URL scheme, with any name:password@ before a host hidden."""
    parts = word.split("/")
    for number, part in enumerate(parts):
        login, at, host = part.rpartition("@")
        name, colon, password = login.partition(":")
        begin = max(map(name.rfind, "'\"(=")) + 1
        has_login = colon and name[begin:] not in ("", "mailto") and not password.startswith("\\")
        host = host.rstrip("'\":,.)")
        is_host = "." in host or ":" in host or number < len(parts) - 1
        if has_login and is_host and (host[:1].isalnum() or host[:1] == "["):
            parts[number] = f"{name[:begin]}…@{part[len(login) + len(at) :]}"
    return "/".join(parts)

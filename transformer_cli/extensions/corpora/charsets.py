"""Find the encodings that PO, TMX, XLIFF and HTML files declare."""

import codecs
import re

_ASCII = bytes(range(128))
_UTF_16 = ("utf-16", "utf-16-le", "utf-16-be")


def find_encoding(declared: str, utf16: bool = False) -> str | None:
    """Return Python's name for the encoding that a file declares, or None if it is not supported.

    All supported encodings but UTF-16 decode ASCII bytes as ASCII, one at a time, in linear time.
    UTF-16 is supported if ``utf16`` is true, as for XML; other formats declare encodings in ASCII.
    Readers drop a byte order mark, so for 'utf-8-sig' this returns 'utf-8'.
    """
    try:
        name = codecs.lookup(declared).name.removesuffix("-sig")
        if utf16 and name in _UTF_16:
            return name
        # idna raises errors of its own, mac-arabic has two codes for digits, and the others give
        # some ASCII sequences another meaning.
        is_odd = re.search("idna|iso2022|escape|arabic|farsi|charmap", name)
        if is_odd or _ASCII.decode(name) != _ASCII.decode():
            return None
    except (LookupError, ValueError):
        return None
    return name

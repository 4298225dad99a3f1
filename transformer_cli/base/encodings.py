"""The encodings that a file may declare, or a user may name.

All of them read ASCII as ASCII, one character after another, in linear time. Python has others that
do not: punycode takes quadratic time, idna raises errors of its own, and cp037 is EBCDIC.
"""

import codecs

_SINGLE_BYTE = (
    *("ascii", "koi8-r", "koi8-u", "koi8-t", "kz1048", "ptcp154", "tis-620"),
    *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
    *(f"cp{page}" for page in (437, 720, 737, 775, 850, 852, 855, 857, 858, *range(860, 864))),
    *(f"cp{page}" for page in (865, 866, 869, 874, 1125, *range(1250, 1259))),
    *(f"mac-{name}" for name in ("cyrillic", "greek", "iceland", "latin2", "roman", "turkish")),
)
_MULTIBYTE = (
    *("utf-8", "big5", "big5hkscs", "gb2312", "gbk", "gb18030"),
    *("euc_jp", "euc_kr", "shift_jis", "cp932", "cp949", "cp950"),
)
ENCODINGS = frozenset((*_SINGLE_BYTE, *_MULTIBYTE))
"""By Python's names. UTF-16 is not one of them: a text in it cannot declare it in ASCII."""
_UTF_16 = frozenset({"utf-16", "utf-16-le", "utf-16-be"})


def find_encoding(given: str, utf16: bool = False) -> str | None:
    """Return Python's name of an encoding; None: it cannot be used.

    ``utf16`` allows UTF-16, which users may name, and XML may declare. Readers drop a byte order
    mark, so 'utf-8-sig' is UTF-8.
    """
    try:
        name = codecs.lookup(given).name.removesuffix("-sig")
    except (LookupError, ValueError):
        return None
    return name if name in ENCODINGS or (utf16 and name in _UTF_16) else None

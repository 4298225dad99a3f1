"""The encodings that a file may declare.

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
"""By Python's names. UTF-16 is not one of them: only a byte order mark says so reliably."""


def find_encoding(declared: str) -> str | None:
    """Return Python's name of an encoding that a file declares; None: it cannot be used."""
    try:
        name = codecs.lookup(declared).name
    except (LookupError, ValueError):
        return None
    return name if name in ENCODINGS else None

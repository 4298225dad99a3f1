"""The corrections that a server was sent, in a translation memory that each is appended to."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.base.errors import RunError
from transformer_cli.base.files import read_small
from transformer_cli.base.locations import open_regular
from transformer_cli.base.text_files import write_text
from transformer_cli.extensions.growing.memory import fold

_MOST_BYTES = 1 << 28  # of the file
_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
<header creationtool="transformer-cli" creationtoolversion="1" segtype="sentence" \
o-tmf="transformer-cli" adminlang="en" srclang="{}" datatype="plaintext"/>
<body>
"""
_BODY, _UNIT_END, _FOOTER = b"<body>\n", b"</tu>\n", b"</body>\n</tmx>\n"
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # for XML
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


class Corrections:
    """Corrections, of which each sender has one for each source: the last one.

    Attributes:
        path: the file, in TMX.
        chosen: for each source, the translation that most senders gave; of several, the first one.
        count: how often ``chosen`` has changed.
    """

    def __init__(self, path: Path, languages: tuple[str, str]) -> None:
        """Read the file, or create it; mend its end if the process that wrote it was killed.

        Raises:
            RunError: the file cannot be read or written.
        """
        self.path, self.chosen, self.count = path, dict[str, str](), 0
        self._languages = languages
        self._given: dict[str, dict[str, str]] = {}  # by source, then by sender
        self._lock = Lock()
        try:
            if not path.exists():
                write_text(path, _HEADER.format(languages[0]) + _FOOTER.decode())
            self._file = open_regular(path, "r+b")
            data = read_small(path, _MOST_BYTES)
            if b"<!" in data:
                raise ValueError("it declares entities or has comments")
            self._end = self._mend(data)
            for sender, src, tgt in self._read():
                self._choose(sender, src, tgt)
        except (OSError, ValueError, ElementTree.ParseError) as error:
            raise RunError(f"{path}: cannot be used: {error}; mend it or move it away") from error

    def add(self, src: str, tgt: str, previous: str, sender: str) -> None:
        """Add a correction; return once it is on the disk.

        Args:
            src: the source text.
            tgt: its translation.
            previous: the translation that ``tgt`` corrects.
            sender: who sent it: the name of a key, or an address.
        """
        src, tgt, previous = (fold(_UNFIT.sub(" ", text)) for text in (src, tgt, previous))
        with self._lock:
            if self._given.get(src, {}).get(sender) == tgt:
                return  # sent again, because the answer was lost
            time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            sides = "".join(
                f"<tuv xml:lang={quoteattr(code)}><seg>{escape(text)}</seg></tuv>"
                for code, text in zip(self._languages, (src, tgt), strict=True)
            )
            about = f'<prop type="x-previous">{escape(previous)}</prop>'
            start = f'<tu creationdate="{time}" creationid={quoteattr(sender)}>'
            self._write(self._end, f"{start}{about}{sides}".encode() + _UNIT_END)
            self._choose(sender, src, tgt)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _choose(self, sender: str, src: str, tgt: str) -> None:
        given = self._given.setdefault(src, {})
        given[sender] = tgt
        ((most, _),) = Counter(given.values()).most_common(1)  # the first one, if there are several
        if self.chosen.get(src) != most:
            self.chosen[src] = most
            self.count += 1

    def _mend(self, data: bytes) -> int:
        """Write what the file lacks at its end; return where the footer starts."""
        if not data.endswith(_FOOTER):
            end = max(data.rfind(mark) + len(mark) for mark in (_UNIT_END, _BODY) if mark in data)
            self._write(end, b"")
            return end
        return len(data) - len(_FOOTER)

    def _write(self, place: int, data: bytes) -> None:
        self._file.seek(place)
        self._file.write(data + _FOOTER)
        self._file.truncate()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end = place + len(data)

    def _read(self) -> Iterator[tuple[str, str, str]]:
        """Yield the sender, source and translation of each correction."""
        for unit in ElementTree.parse(self.path).iter("tu"):
            texts = {one.get(_LANG, ""): one.findtext("seg", "") for one in unit.iter("tuv")}
            src, tgt = (fold(texts.get(code, "")) for code in self._languages)
            if src and tgt:
                yield unit.get("creationid", ""), src, tgt

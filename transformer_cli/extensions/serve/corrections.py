"""The corrections that a server was sent, in a translation memory to which each is appended."""

import os
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from xml.etree import ElementTree

from transformer_cli.base.errors import InputError, RunError
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
_ENDS = (b"</tu>\n", b"<body>\n")
_FOOTER = b"</body>\n</tmx>\n"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # for XML


class Corrections:
    """Corrections by senders, each of whom has one voice for each source.

    Attributes:
        path: the file, in TMX.
        chosen: for each source, the translation that most senders gave, or the first of several.
    """

    def __init__(self, path: Path, languages: tuple[str, str]) -> None:
        """Read the file, or create it; complete its end if the process that wrote it was killed.

        Raises:
            RunError: the file cannot be read or written.
        """
        self.path, self.chosen = path, dict[str, str]()
        self._languages = languages
        self._given: dict[str, dict[str, str]] = {}  # by source, then by sender
        self._lock = Lock()
        try:
            if not path.exists():
                write_text(path, _HEADER.format(languages[0]) + _FOOTER.decode())
            data = read_small(path, _MOST_BYTES)
            if not data.rstrip().endswith(b"</tmx>"):  # it was cut off
                data = data[: max(data.rfind(mark) + len(mark) for mark in _ENDS)] + _FOOTER
            if b"<!" in data:
                raise ValueError("it declares entities or has comments")
            for unit in ElementTree.fromstring(data).iter("tu"):
                sides = [
                    (one.get(_LANG), fold(one.findtext("seg", ""))) for one in unit.iter("tuv")
                ]
                # The languages may be the same; then the target is the last one.
                src = dict(reversed(sides)).get(languages[0])
                tgt = dict(sides).get(languages[1])
                if src and tgt:
                    self._choose(unit.get("creationid", ""), src, tgt)
            self._end = data.rindex(b"</body>")
            self._file = open_regular(path, "r+b")
        except (OSError, ValueError, ElementTree.ParseError) as error:
            raise RunError(f"{path}: cannot be used: {error}; repair it or move it away") from error

    def add(self, src: str, tgt: str, previous: str, sender: str) -> str:
        """Write a correction to the disk; return the translation of ``src`` that now counts.

        ``tgt`` corrects the translation ``previous``. ``sender`` is a key's name or an address.

        Raises:
            InputError: a side is empty, or the file is full.
        """
        src, tgt, previous = (fold(_UNFIT.sub(" ", text)) for text in (src, tgt, previous))
        if not src or not tgt:
            raise InputError("q and s: neither may be empty")
        with self._lock:
            if self._given.get(src, {}).get(sender) != tgt:  # else sent again: the answer was lost
                if self._end > _MOST_BYTES - 200_000:
                    raise InputError(f"{self.path.name} is full; move it away")
                self._write(src, tgt, previous, sender)
                self._choose(sender, src, tgt)
            return self.chosen[src]

    def _choose(self, sender: str, src: str, tgt: str) -> None:
        given = self._given.setdefault(src, {})
        given[sender] = tgt
        # Of several, the first one is the most common.
        self.chosen[src] = Counter(given.values()).most_common(1)[0][0]

    def _write(self, src: str, tgt: str, previous: str, sender: str) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        unit = ElementTree.Element("tu", creationdate=now, creationid=sender)
        ElementTree.SubElement(unit, "prop", type="x-previous").text = previous
        for code, text in zip(self._languages, (src, tgt), strict=True):
            side = ElementTree.SubElement(unit, "tuv", {_LANG: code})
            ElementTree.SubElement(side, "seg").text = text
        data = f"{ElementTree.tostring(unit, 'unicode')}\n".encode()
        self._file.seek(self._end)
        self._file.write(data + _FOOTER)
        self._file.truncate()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end += len(data)

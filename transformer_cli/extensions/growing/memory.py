"""The corrections that a run contains, and the translator that recalls them.

corrections.tsv has one correction per line: a source and its translation, separated by a tab.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from transformer_cli.base.errors import RunError
from transformer_cli.base.files import read_small, sha256
from transformer_cli.base.text_files import write_text
from transformer_cli.cli.declaring import AnyTranslator
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher
from transformer_cli.text.protocol import EncodedSource

FILE = "corrections.tsv"
_MOST_BYTES = 1 << 28  # of the file, which is held in memory; about two million corrections


def fold(line: str) -> str:
    """Return a line in the form in which sources are compared: NFC, with single spaces."""
    return unicodedata.normalize("NFC", " ".join(line.split()))


def read_memory(path: Path) -> dict[str, str]:
    """Return the translations in corrections.tsv, keyed by source; empty if there is no file.

    Raises:
        RunError: a line is not a correction, or the file cannot be read.
    """
    found = {}
    try:
        data = read_small(path, _MOST_BYTES) if path.is_file() else b""
        lines = data.decode("utf-8-sig").split("\n")
    except (OSError, UnicodeError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        src, tab, tgt = line.partition("\t")
        if not tab or "\t" in tgt or not src.strip() or not tgt.strip():
            problem = "expected a source and its translation, separated by one tab"
            raise RunError(f"{path}: line {number}: {problem}; correct the line, or delete it")
        found[fold(src)] = tgt.strip()
    return found


def write_memory(path: Path, pairs: Mapping[str, str]) -> None:
    """Write corrections.tsv."""
    write_text(path, "".join(f"{src}\t{tgt}\n" for src, tgt in pairs.items()))


def remember(translator: AnyTranslator, path: Path) -> AnyTranslator:
    """Return a translator that translates the sources in the file ``path`` as corrected."""
    facts = {"memory": read_memory(path), "memory_sum": sha256(path)}
    recalling: AnyTranslator = translator.extended_by(Recalling, **facts)
    return recalling


class Recalling(TextTranslator[Any]):
    """A translator of lines of which some have a correction."""

    memory: ClassVar[Mapping[str, str]]
    memory_sum: ClassVar[str]

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        return super().settings_fingerprint | {"corrections": self.memory_sum}

    def has_correction(self, text: str) -> bool:
        """Return whether the run has a correction of a text."""
        return fold(text) in self.memory

    def encode_line(self, text: str) -> EncodedLine:
        """Encode a line as ``TextTranslator`` does; but a line with a correction has no pieces."""
        # A prefix, of the extension `prefixes`, asks for another translation.
        if self.has_correction(text) and not getattr(text, "prefix", ""):
            return EncodedLine(text, EncodedSource(text, []), [], is_copied=True)
        return super().encode_line(text)

    def translate_encoded(
        self, encoded: Sequence[EncodedLine], n_best: int | None = 1, watcher: Watcher = NOBODY
    ) -> list[list[Translation]]:
        """Return the translations of lines; that of a corrected line is its correction."""
        found = super().translate_encoded(encoded, n_best, watcher)
        for place, line in enumerate(encoded):
            if line.is_copied and (tgt := self.memory.get(fold(line.text))) is not None:
                found[place] = [Translation(tgt)]
        return found

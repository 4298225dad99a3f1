"""What Python programs and notebooks use: ``from transformer_cli import Translator``.

This surface is small so that it can stay as it is; everything else may change with any version.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from transformer_cli.config.choices import MOST_THREADS, DeviceName, SearchPrecisionName
from transformer_cli.errors import InputError, UsageError
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import Computing, load_translator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory


class Translator:
    """A trained model that translates; make one with ``Translator.load``.

    Several threads may use one: they take turns.
    """

    def __init__(self, translator: TextTranslator[SearchEngine]) -> None:
        self._translator = translator
        self._turn = threading.Lock()

    @classmethod
    def load(
        cls,
        path: str | Path,
        checkpoint: str = "best",
        device: DeviceName = "auto",
        precision: SearchPrecisionName = "auto",
        threads: int | None = None,
    ) -> "Translator":
        """Read a trained model.

        Args:
            path: a run directory, or what ``transformer-cli export --format hub`` made of one.
            checkpoint: 'best', 'last', 'average' or a checkpoint's path.
            device: where to compute; 'auto' takes a GPU if there is one.
            precision: of matrix products; 'auto' is bfloat16 on a GPU that has it, else float32.
            threads: CPU threads, for all that torch does in this process; None leaves them alone.

        Raises:
            TransformerCliError: something is missing or damaged; the message is one line that says
                what, and what to do.
        """
        for name, value, choices in (
            ("device", device, get_args(DeviceName)),
            ("precision", precision, get_args(SearchPrecisionName)),
        ):
            if value not in choices:
                raise UsageError(f"load: {name}: expected one of {choices}, found {value!r}")
        _check_at_least_one("load: threads", threads)
        if threads is not None and threads > MOST_THREADS:
            raise UsageError(f"load: threads: expected at most {MOST_THREADS}, found {threads}")
        run = RunDirectory(Path(path))
        asked = Computing(device=device, precision=precision, threads=threads)
        return cls(load_translator(run, checkpoint, asked))

    @property
    def src_lang(self) -> str:
        """Source language, as in 'de'."""
        return self._translator.config.data.src_lang

    @property
    def tgt_lang(self) -> str:
        """Target language."""
        return self._translator.config.data.tgt_lang

    def translate(
        self,
        lines: Iterable[str],
        beam_size: int | None = None,
        batch_tokens: int | None = None,
    ) -> list[str]:
        """Translate text, one sentence a line.

        Args:
            lines: a list, say, or an open file; best one sentence each. One of more than 1,024
                tokens is translated in pieces.
            beam_size: hypotheses kept; 1 is greedy search. None: the run's setting.
            batch_tokens: source tokens in a batch, times the beam. None: the run's setting.

        Returns:
            As many translations, in the same order; a blank line's is empty.

        Raises:
            InputError: ``lines`` is one text instead of several, or has what is no text.
            UsageError: a number is less than 1.
        """
        if isinstance(lines, str):
            raise InputError("translate: takes a list of lines; for one, translate([text])")
        lines = list(lines)
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, str):
                raise InputError(f"translate: line {number} is {type(line).__name__}, not text")
            try:
                line.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"translate: line {number} cannot be written as UTF-8 ({error.reason}); "
                    "read it with another encoding"
                ) from error
        _check_at_least_one("translate: beam_size", beam_size)
        _check_at_least_one("translate: batch_tokens", batch_tokens)
        with self._turn:
            return self._translator.with_search(beam_size, batch_tokens).translate(lines)


def _check_at_least_one(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise UsageError(f"{name}: expected at least 1, found {value}")

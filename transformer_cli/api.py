"""What Python programs and notebooks use: ``from transformer_cli import Translator``.

This surface is small so that it can stay as it is; everything else may change with any version.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import get_args
from weakref import WeakSet

from transformer_cli.config.choices import MOST_THREADS, DeviceName, SearchPrecisionName
from transformer_cli.errors import InputError, UsageError
from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import Computing, load_translator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory


class Translator:
    """A trained model that translates; make one with ``Translator.load``.

    Several threads may use one: they take turns. So may forked processes: where CTranslate2
    searches, each reads the model anew before its first translation.
    """

    def __init__(self, load: Callable[[], TextTranslator[SearchEngine]]) -> None:
        self._load = load
        self._translator = load()
        self._is_parents = False
        self._turn = threading.Lock()
        _LOADED.add(self)

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
            path: a run directory, or what ``transformer-cli export`` made of one, for the Hub or
                CTranslate2.
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
        run = RunDirectory(Path(path).absolute())
        # Any call may ask for a beam.
        asked = Computing("auto", device, precision, threads, beam_size=2)
        return cls(partial(load_translator, run, checkpoint, asked))

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
        tag: str | None = None,
    ) -> list[str]:
        """Translate text, one sentence a line.

        Args:
            lines: a list, say, or an open file; best one sentence each. One of more than 1,024
                tokens is translated in pieces.
            beam_size: hypotheses kept; 1 is greedy search. None: the run's setting.
            batch_tokens: source tokens in a batch, times the beam. None: the run's setting.
            tag: put before each line, as in the training data; None: no tag.

        Returns:
            As many translations, in the same order; a blank line's is empty.

        Raises:
            InputError: ``lines`` is one text instead of several, or has what is no text.
            UsageError: a number is less than 1, or the run has no such tag.
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
            if self._is_parents:
                self._translator, self._is_parents = self._load(), False
            translator = self._translator.with_search(beam_size, batch_tokens)
            return translator.with_tag(tag).translate(lines)

    def _leave_to_parent(self) -> None:
        self._turn = threading.Lock()  # a thread of the parent may have held it
        engine = self._translator.engine
        if isinstance(engine, CTranslate2Engine):
            self._is_parents = True
            # Never freed: its destructor would wait for its threads, which a child has not.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine.translator))


_LOADED: WeakSet[Translator] = WeakSet()


def _leave_all_to_parent() -> None:
    """Make a forked process load its models anew, as they are needed."""
    for each in list(_LOADED):
        each._leave_to_parent()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def _check_at_least_one(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise UsageError(f"{name}: expected at least 1, found {value}")

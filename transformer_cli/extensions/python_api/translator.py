"""The interface for Python programs and notebooks: ``from transformer_cli import Translator``.

It is small so that it can stay stable; all other code may change in any version.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from weakref import WeakSet

from transformer_cli.base import registry
from transformer_cli.base.errors import (
    CheckpointError,
    InputError,
    MissingCheckpointError,
    UsageError,
)
from transformer_cli.config.choices import (
    LARGEST_BEAM,
    MOST_THREADS,
    DeviceName,
    SearchPrecisionName,
)
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import ComputeOptions, choose_engine, load_translator
from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.checkpoint import find_checkpoint
from transformer_cli.runs.directory import RunDirectory


class Translator:
    """A trained model that translates; create one with ``Translator.load``.

    Several threads may share a translator; they take turns. A forked process may use it on a CPU.
    In such a process, torch has one thread, and other engines read the model again before their
    first translation.
    """

    def __init__(self, run: RunDirectory, checkpoint: str, options: ComputeOptions) -> None:
        # Choose here, because the run may have been moved when a call gives a setting.
        values = {name: DecodingConfig.bounds(name)[1] for name in DecodingConfig.options()}
        searches = {"": {}, **{name: {name: value} for name, value in values.items()}}
        self._engines = {
            (name, prefers_torch): choose_engine(
                run,
                replace(options, search={"beam_size": 2, **search}),  # any call may set a beam
                prefers_torch=prefers_torch,
            )
            for name, search in searches.items()
            for prefers_torch in (False, True)
        }
        if not (run.exported or run.only_engine):
            # Use one checkpoint for both engines, even if training replaces the best one meanwhile.
            checkpoint = str(find_checkpoint(run.checkpoints, checkpoint).absolute())
        self._run, self._checkpoint, self._options = run, checkpoint, options
        self._weights = ""  # their checksum, once they are loaded
        self._loaded: dict[str, TextTranslator[SearchEngine]] = {}
        self._turn = threading.Lock()
        self._config = self._get(self._choose(False, {})).config
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
        """Load a trained model.

        Args:
            path: a run directory, or an exported model in a format that an installed engine reads.
            checkpoint: 'best', 'last', 'average' or a checkpoint's path.
            device: where to compute; 'auto' uses a GPU if there is one.
            precision: precision of matrix products; 'auto' is bfloat16 on a GPU that supports it,
                else float32.
            threads: CPU threads for all of torch's work in this process; None keeps the current
                number.

        Raises:
            TransformerCliError: something is missing or damaged; the message is one line with the
                problem and the fix.
        """
        for name, value, kind in (
            ("device", device, DeviceName),
            ("precision", precision, SearchPrecisionName),
        ):
            if value not in (choices := get_args(kind)):
                raise UsageError(f"load: {name}: expected one of {choices}, found {value!r}")
        _check_type("load: path", path, (str, Path), "a path")
        _check_type("load: checkpoint", checkpoint, str, "text")
        if threads is not None:
            _check_count("load: threads", threads, MOST_THREADS)
        options = ComputeOptions("auto", device, precision, threads)
        return cls(RunDirectory(Path(path).absolute()), checkpoint, options)

    @property
    def src_lang(self) -> str:
        """Source language, for example 'de'."""
        return self._config.data.src_lang

    @property
    def tgt_lang(self) -> str:
        """Target language, for example 'en'."""
        return self._config.data.tgt_lang

    def translate(
        self,
        lines: Iterable[str],
        beam_size: int | None = None,
        batch_tokens: int | None = None,
        tag: str | None = None,
        length_penalty: float | None = None,
        prefixes: Iterable[str] | None = None,
        **search: Any,
    ) -> list[str]:
        """Translate lines of text.

        Args:
            lines: for example, a list or an open file; best with one sentence per line. A line of
                more than 1,024 tokens is translated in pieces.
            beam_size: number of hypotheses kept; 1 is greedy search. None: the run's setting.
            batch_tokens: maximum of source tokens times beam size in a batch; None: the run's.
            tag: a tag to put before each line, as in the training data; None: no tag.
            length_penalty: 0 to 100; a higher value prefers longer translations. None: the run's
                setting.
            prefixes: for each line, text that its translation begins with, verbatim; an empty
                prefix forces nothing.
            search: other search settings, named like the options of the command ``translate``.

        Returns:
            One translation per line, in the same order. A blank line gives an empty translation; a
            line without words, such as a number, is copied, unless the training text had many.

        Raises:
            InputError: ``lines`` is a single string or has an item that is not text, or the number
                of prefixes differs from the number of lines.
            UsageError: a number is out of range, the run has no such tag, or the only engine that
                reads the model cannot force prefixes.
        """
        search |= {"beam_size": beam_size, "batch_tokens": batch_tokens}
        search |= {"length_penalty": length_penalty}
        translated = self._translate("translate", lines, search, tag, prefixes)
        return [best.text for best, *_ in translated]

    def translate_n_best(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        alignments: bool = False,
        beam_size: int | None = None,
        batch_tokens: int | None = None,
        tag: str | None = None,
        length_penalty: float | None = None,
        prefixes: Iterable[str] | None = None,
        **search: Any,
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations of each line, with their scores.

        The beam is widened to ``n_best``; a ``beam_size`` that you give must be at least that. With
        ``alignments``, translations are aligned with their lines, word by word. Everything else is
        as in ``translate``.

        Returns:
            One list per line, in the same order, with the best translation first; for a blank line,
            one empty translation.
        """
        _check_count("translate_n_best: n_best", n_best, LARGEST_BEAM)
        _check_type("translate_n_best: alignments", alignments, bool, "True or False")
        search |= {"beam_size": beam_size, "batch_tokens": batch_tokens}
        search |= {"length_penalty": length_penalty}
        method = "translate_n_best"
        return self._translate(method, lines, search, tag, prefixes, n_best, alignments)

    def _translate(
        self,
        method: str,
        lines: Iterable[str],
        search: Mapping[str, Any],
        tag: str | None,
        prefixes: Iterable[str] | None,
        n_best: int | None = None,
        alignments: bool = False,
    ) -> list[list[Translation]]:
        """Check the arguments of ``method`` and translate; if ``n_best`` is None, skip scores."""
        known = ("beam_size", "batch_tokens", *DecodingConfig.options())
        if unknown := [name for name in search if name not in known]:
            problem = f"got an unexpected keyword argument '{unknown[0]}'"
            raise TypeError(f"Translator.{method}() {problem}")
        for name, value in search.items():
            if value is not None:
                _check_setting(method, name, value)
        if tag is not None:
            _check_type(f"{method}: tag", tag, str, "text")
        beam_size = search["beam_size"]
        if n_best is not None and beam_size is not None and n_best > beam_size:
            raise UsageError(f"{method}: a beam of {beam_size} cannot hold the {n_best} best")
        texts = _read_texts(method, "line", lines)
        starts = None if prefixes is None else _read_texts(method, "prefix", prefixes)
        if starts is not None and len(starts) != len(texts):
            raise InputError(
                f"{method}: {len(starts)} prefixes for {len(texts)} lines; give one per line, "
                "which may be empty"
            )
        needing_torch = ["prefixes"] * (starts is not None) + ["alignments"] * alignments
        has_scores = n_best is not None or bool(needing_torch)
        with self._turn:
            loaded = self._get(self._choose(has_scores, search))
            if needing_torch and loaded.engine.name != "torch":
                exported = self._run.only_engine
                lack = f"reads no model exported for {exported.facts['reader']}" if exported else ""
                raise UsageError(
                    f"{method}: {' and '.join(needing_torch)}: need torch, which "
                    f"{lack or 'has no int8'}; load the run, in float32"
                )
            if tag is not None:
                loaded = replace(loaded, tokenizers=loaded.tokenizers.tagged(tag))
            translator = loaded.with_search(**search)
            translator = translator.with_search(max(n_best or 1, translator.decoding.beam_size))
            if starts is not None:
                from transformer_cli.extensions.prefixes import forced_prefixes

                translator = forced_prefixes.with_prefixes(translator)
                numbers = range(1, len(texts) + 1)
                texts = list(map(forced_prefixes.PrefixedText, texts, starts, numbers))
            if alignments:
                from transformer_cli.extensions.alignments.aligning import with_alignments

                translator = with_alignments(translator)
            return translator.translate_lines(texts, n_best)

    def _choose(self, prefers_torch: bool, search: Mapping[str, Any]) -> str:
        """Return the name of the engine for a call: 'torch' if one of the settings needs it."""
        given = [name for name in DecodingConfig.options() if search.get(name) is not None]
        engines = [self._engines[name, prefers_torch] for name in ("", *given)]
        return "torch" if "torch" in engines else engines[0]

    def _get(self, engine: str) -> TextTranslator[SearchEngine]:
        """Return the loaded translator of an engine; load it on first use."""
        if engine not in self._loaded:
            threads = 1 if _FORKED else self._options.threads
            options = replace(self._options, engine=engine, threads=threads)
            try:
                loaded = load_translator(self._run, self._checkpoint, options)
            except MissingCheckpointError as error:
                raise MissingCheckpointError(
                    f"{self._checkpoint}: no longer exists; training may have replaced it; load "
                    "the model again"
                ) from error
            if loaded.checkpoint != (self._weights or loaded.checkpoint):
                raise CheckpointError(
                    f"{self._checkpoint}: its weights have changed; load the model again"
                )
            self._weights = loaded.checkpoint
            for entry in registry.entries("translate options").values():
                if entry.facts.get("acts_in_python"):
                    loaded = entry.load()().prepare(loaded, SimpleNamespace(run=self._run.path))
            self._loaded[engine] = loaded
        return self._loaded[engine]

    def _leave_to_parent(self) -> None:
        self._turn = threading.Lock()  # a thread of the parent may have held the old one
        for name in list(self._loaded):
            if name == "torch":
                sys.modules["torch"].set_num_threads(1)
            else:
                # Never free it: a destructor might wait for threads, which stay in the parent.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._loaded.pop(name)))


_LOADED: WeakSet[Translator] = WeakSet()
_FORKED: list[bool] = []
"""Not empty in a process forked after torch was imported; torch's threads stay in the parent."""


def _leave_all_to_parent() -> None:
    if "torch" in sys.modules:
        _FORKED.append(True)
    for translator in list(_LOADED):
        translator._leave_to_parent()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def _read_texts(method: str, kind: str, lines: Iterable[str]) -> list[str]:
    if isinstance(lines, str) or not isinstance(lines, Iterable):
        plural, one = ("lines", f"{method}([text])")
        if kind == "prefix":
            plural, one = ("prefixes", "prefixes=[text]")
        raise InputError(
            f"{method}: takes a list of {plural}, found {type(lines).__name__}; for one, {one}"
        )
    texts = list(lines)
    for number, line in enumerate(texts, start=1):
        if not isinstance(line, str):
            raise InputError(f"{method}: {kind} {number} is {type(line).__name__}, not text")
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{method}: {kind} {number} cannot be written as UTF-8 ({error.reason}); "
                "read it with another encoding"
            ) from error
    return texts


def _check_type(name: str, value: object, kinds: Any, expected: str) -> None:
    # Python counts True as a number.
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise UsageError(f"{name}: expected {expected}, found {value!r}")


def _check_setting(method: str, name: str, value: Any) -> None:
    least, most = DecodingConfig.bounds(name)
    if DecodingConfig.model_fields[name].annotation is int:
        _check_count(f"{method}: {name}", value, most, least)
        return
    _check_type(f"{method}: {name}", value, Real, "a number")
    if not least <= value <= most:  # NaN is neither
        raise UsageError(f"{method}: {name}: expected {least:g} to {most:g}, found {value}")


def _check_count(name: str, value: int, most: int, least: int = 1) -> None:
    _check_type(name, value, Integral, "an integer")
    if value < least:
        raise UsageError(f"{name}: expected at least {least}, found {value}")
    if value > most:
        raise UsageError(f"{name}: expected at most {most}, found {value}")

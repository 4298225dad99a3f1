"""Search with CTranslate2 on a CPU, where its int8 weights make it faster than torch."""

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from threading import Event, Lock
from typing import Any

from transformer_cli.base.errors import CheckpointError, UsageError, is_out_of_memory
from transformer_cli.base.files import read_small
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.base.workers import count_cores
from transformer_cli.config.choices import MOST_THREADS, SearchPrecisionName
from transformer_cli.config.schema import ModelConfig
from transformer_cli.extensions.ctranslate2.choosing import find_unsupported
from transformer_cli.inference.engine import (
    Hypothesis,
    SearchOptions,
    describe_versions,
    repeats_itself,
)
from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher
from transformer_cli.text.protocol import EOS_ID, UNK_ID, Tokenizers
from transformer_cli.text.tokenizer import MAX_TOKENIZER_BYTES

with lazy_imports():
    from transformer_cli.extensions.ctranslate2 import running_ahead

SINUSOIDS = 2_100
"""The number of positions in exported models that do not learn them. It is enough for the longest
source, 1,024 tokens, and for its longest output, which is twice as long plus ten."""
# Source tokens in a batch. More tokens are not faster, and spread less evenly over cores.
_BATCH_TOKENS = 2048
# Batches that CTranslate2 may work on at a time, for each of its workers.
_AHEAD = 2
# The length penalty for CTranslate2. ``TextTranslator`` ranks hypotheses by ours, so this one must
# not change scores. But with 0, CTranslate2 ends a beam as soon as the best hypothesis ends; our
# search continues until as many hypotheses have ended as the beam holds.
_NO_PENALTY = 1e-30


@dataclass(frozen=True)
class CTranslate2Engine:
    """A ``SearchEngine`` that searches with CTranslate2, using an exported model."""

    translator: Any  # a ``ctranslate2.Translator``
    src_names: list[str]  # CTranslate2's names of source tokens, by id
    tgt_names: list[str]  # CTranslate2's names of target tokens, by id
    max_positions: int  # the longest output for the exported table of positions
    name = "ctranslate2"
    is_on_gpu = False
    _starting: Lock = field(default_factory=Lock)

    @cached_property
    def _tgt_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.tgt_names)}

    @classmethod
    def open(
        cls,
        directory: Path,
        model: ModelConfig,
        tokenizers: Tokenizers,
        threads: int | None,
        precision: SearchPrecisionName,
        check_loads: Callable[[], object] = lambda: None,
    ) -> "CTranslate2Engine":
        """Load a model that ``write_model`` wrote into a directory.

        ``threads`` is the number of batches searched at once; None: the number of torch's threads.
        With ``precision`` 'auto', the search computes in the type of the weights. ``check_loads``
        is called after all other files are checked and before the model is loaded.

        Raises:
            CheckpointError: a file is missing or damaged.
            UsageError: this CPU does not support the precision.
            MissingExtraError: CTranslate2 is not installed.
        """
        ctranslate2 = import_extra("ctranslate2", None, "CTranslate2's search")
        src_names = _load_names(directory, "source", tokenizers.src.size)
        tgt_names = _load_names(directory, "target", tokenizers.tgt.size)
        check_loads()
        try:
            translator = ctranslate2.Translator(
                str(directory),
                device="cpu",
                compute_type="default" if precision == "auto" else precision,
                inter_threads=threads or _count_threads(),
                intra_threads=1,
            )
        except ValueError as error:
            raise UsageError(f"CTranslate2 does not support this precision: {error}") from error
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise CheckpointError(
                f"{directory}: CTranslate2 cannot read it ({error}); export it again"
            ) from error
        learned = model.positions == "learned"
        return cls(translator, src_names, tgt_names, model.max_positions if learned else SINUSOIDS)

    @property
    def fingerprint(self) -> dict[str, str]:
        """The values that determine the output: precision, and the engine's name and version."""
        precision = {"precision": self.translator.compute_type, "engine": self.name}
        return precision | describe_versions("ctranslate2")

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source; see ``SearchEngine.search``.

        Greedy search writes the same output as ``TorchEngine``, except for rounding.
        Log-probabilities exclude tokens that are never written, so they differ, and so may the
        output of beam search. The difference is large if training targets contained <unk>.
        """
        if options.constraints or options.sampler:
            raise UsageError("`engine` ctranslate2: does not support constraints or sampling")
        if lacking := find_unsupported(options.decoding):
            raise UsageError(
                f"`engine` ctranslate2: does not support decoding.{lacking[0]}; use `engine` torch"
            )
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        waiting: deque[tuple[list[int], list[Any]]] = deque()

        def finish_first() -> None:
            batch, started = waiting.popleft()
            for index, one in zip(batch, started, strict=True):
                outputs[index] = self._read_hypotheses(one.result(), limits[index])
            progress(len(batch))

        limits = [min(limit, self.max_positions) for limit in max_lengths]
        max_tokens = min(batch_tokens // options.decoding.beam_size, _BATCH_TOKENS)
        # Greedy search can be cut at any limit, as later tokens do not change earlier ones. In
        # int8, padding affects rounding.
        is_greedy = options.decoding.beam_size == 1 and not options.with_scores
        mixed = is_greedy and self.translator.compute_type == "float32"
        size = options.decoding.no_repeat_ngram_size
        sizes = [0 if size is None or repeats_itself(ids, size) else size for ids in sources]
        batches = _cut_batches([len(ids) for ids in sources], limits, max_tokens, mixed, sizes)
        with self._starting:  # batches of a later search come after those of this one
            for limit, batch in batches:
                if should_stop():
                    break
                alike = [sources[n] for n in batch]
                waiting.append((batch, self._start(alike, limit, options, sizes[batch[0]])))
                if len(waiting) > _AHEAD * self.translator.num_translators:
                    finish_first()
        while waiting:
            finish_first()
        return outputs

    def score(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
    ) -> list[float]:
        """Return the log-probability of each target, EOS included, given its source.

        Sources end with EOS, but targets do not. Padded batches have at most ``batch_tokens``.
        """
        results = self.translator.score_batch(
            self._name_sources(sources),
            [[self.tgt_names[number] for number in ids] for ids in targets],
            max_batch_size=batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        return [float(sum(one.log_probs)) for one in results]

    def _name_sources(self, sources: Sequence[list[int]]) -> list[list[str]]:
        # CTranslate2 adds EOS.
        return [[self.src_names[number] for number in ids[:-1]] for ids in sources]

    def _start(
        self, sources: list[list[int]], limit: int, options: SearchOptions, no_repeat: int
    ) -> Any:
        banned = [[self.tgt_names[number]] for number in options.banned_ids if number != UNK_ID]
        return self.translator.translate_batch(
            self._name_sources(sources),
            asynchronous=True,
            beam_size=options.decoding.beam_size,
            num_hypotheses=options.decoding.beam_size,
            length_penalty=_NO_PENALTY,
            return_scores=options.with_scores or options.decoding.beam_size > 1,
            return_end_token=True,
            disable_unk=UNK_ID in options.banned_ids,
            suppress_sequences=banned,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
            no_repeat_ngram_size=no_repeat,
        )

    def _read_hypotheses(self, result: Any, limit: int) -> list[Hypothesis]:
        hypotheses = [
            Hypothesis([self._tgt_ids[name] for name in names[:limit]], score)
            for names, score in zip(result.hypotheses, result.scores or [0.0], strict=True)
        ]
        ended = [replace(one, ids=one.ids[:-1]) for one in hypotheses if one.ids[-1:] == [EOS_ID]]
        # Hypotheses that reached the limit count only if none ended, and then only the best.
        return ended or hypotheses[:1]


class CTranslate2Translator(TextTranslator[CTranslate2Engine]):
    """A translator that translates a chunk of lines while it reads and encodes the next one."""

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[str]],
        n_best: int | None = None,
        first_line: int = 1,
        reads_ahead: bool = False,
        watcher: Watcher = NOBODY,
    ) -> Iterator[list[list[Translation]]]:
        """Yield a list for each chunk, with its lines' translations; see ``TextTranslator``.

        ``watcher.progress`` is called from several threads, but only from one at a time.
        """
        if not reads_ahead:
            return super().translate_chunks(chunks, n_best, first_line, watcher=watcher)
        stopped, reporting = Event(), Lock()

        def report(lines: int) -> None:
            with reporting:
                watcher.progress(lines)

        watching = watcher._replace(progress=report, should_stop=stopped.is_set)

        def encode() -> Iterator[Callable[[], list[list[Translation]]]]:
            """Encode each chunk, and yield a function that translates it."""
            number = first_line
            for lines in chunks:
                encoded = self.encode_lines(lines, watcher, number)
                number += len(lines)
                yield partial(self.translate_encoded, encoded, n_best, watching)

        return running_ahead.run_ahead(encode(), stopped.set)


def _cut_batches(
    lengths: Sequence[int],
    limits: Sequence[int],
    max_tokens: int,
    mixed: bool,
    no_repeat: Sequence[int],
) -> Iterator[tuple[int, list[int]]]:
    """Yield batches as (output limit, indices of the sources), the longest sources first.

    All sources of a batch have the same ``no_repeat``. The limit is the largest of the sources'
    ``limits``, which are equal unless ``mixed`` is true.
    """
    order = sorted(
        filter(lengths.__getitem__, range(len(lengths))),
        key=lambda place: (no_repeat[place], lengths[place]),
    )
    groups = groupby(
        reversed(order), lambda place: (no_repeat[place], 0 if mixed else limits[place])
    )
    for _, group in groups:
        alike = iter(group)
        for longest in alike:
            rows = max(1, max_tokens // lengths[longest])
            batch = [longest, *islice(alike, rows - 1)]
            yield max(limits[place] for place in batch), batch


def _count_threads() -> int:
    """Return the number of threads that torch uses, or would use if it were imported."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    given = int(wanted) if re.fullmatch("[0-9]{1,9}", wanted) else 0
    return min(given, MOST_THREADS) or count_cores()


def _load_names(directory: Path, side: str, size: int) -> list[str]:
    """Return token names in the order of their ids; ``side`` is 'source' or 'target'."""
    own, shared = directory / f"{side}_vocabulary.json", directory / "shared_vocabulary.json"
    path = own if own.is_file() else shared
    names: list[str] = read_json(path, list, "list of tokens")
    if len(names) != size:
        raise CheckpointError(
            f"{path}: {len(names)} tokens, but the tokenizer has {size}; export the model again"
        )
    return names


def read_json(path: Path, kind: type, what: str) -> Any:
    """Return the content of a JSON file; raise CheckpointError unless it has the type ``kind``."""
    try:
        content = json.loads(read_small(path, MAX_TOKENIZER_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read; export the model again") from error
    if not isinstance(content, kind):
        raise CheckpointError(f"{path}: has no {what}; export the model again")
    return content

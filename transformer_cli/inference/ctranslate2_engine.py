"""Search by CTranslate2, which has int8 and so is faster on a CPU than torch."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from transformer_cli.config.choices import SearchPrecisionName
from transformer_cli.config.schema import ModelConfig
from transformer_cli.config.setting_tree import shorten
from transformer_cli.data.token_arrays import cut_by_tokens
from transformer_cli.errors import CheckpointError, UsageError
from transformer_cli.files import read_small
from transformer_cli.inference.engine import Hypothesis, SearchOptions, rank_hypotheses
from transformer_cli.packages import import_extra
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import MAX_TOKENIZER_BYTES
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, SPECIALS, UNK_ID

SINUSOIDS = 2_100
"""Positions of an exported model that has learned none: the longest source of a line, 1,024 tokens,
and its longest output, twice that plus ten, have room."""
SETTINGS = "settings.yaml"
"""The run's settings in an exported model's directory, which is no run's: it has no config.yaml."""
_SETTINGS = {
    "unk_token": SPECIALS[UNK_ID],
    "bos_token": SPECIALS[BOS_ID],
    "eos_token": SPECIALS[EOS_ID],
    "decoder_start_token": SPECIALS[BOS_ID],
    "add_source_bos": False,
    "add_source_eos": True,
}
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH", "swiglu": "SWISH"}
"""CTranslate2's names of the activations that it supports; it gates with any of them."""
RMS_NORM = {"layernorm": False, "rmsnorm": True}
"""The norms that it supports, and whether each is what it calls ``rms_norm``."""
SUPPORTED = {"norm_kind": tuple(RMS_NORM), "activation": tuple(ACTIVATIONS)}
"""By keys of ``model``: the settings that it can compute with, where not all."""
_Content = TypeVar("_Content", dict[str, Any], list[Any])
# Source tokens in a batch. More of them are no faster, and cores get less even shares.
_BATCH_TOKENS = 2048
# Batches given to CTranslate2 and not yet taken back, for each of its workers.
_AHEAD = 2
# CTranslate2 stops at the first likely end if there is no penalty at all; ours is computed here.
_NO_PENALTY = 1e-30


@dataclass(frozen=True)
class CTranslate2Engine:
    """Search by CTranslate2, over an exported model; a ``SearchEngine``.

    Attributes:
        translator: a ``ctranslate2.Translator``.
        src_names: the source's tokens as CTranslate2 is given them, by id.
        tgt_ids: the ids of the target's tokens, as it gives them.
        max_positions: of an output that the exported table of positions has room for.
    """

    supports_prefixes: ClassVar[bool] = False
    supports_alignments: ClassVar[bool] = False
    supports_sampling: ClassVar[bool] = False

    translator: Any
    src_names: list[str]
    tgt_ids: dict[str, int]
    max_positions: int

    @classmethod
    def open(
        cls,
        directory: Path,
        model: ModelConfig,
        tokenizers: Tokenizers,
        device: tuple[str, int],
        precision: SearchPrecisionName,
        threads: int,
        check_loads: Callable[[], object] | None = None,
    ) -> "CTranslate2Engine":
        """Load a model that ``export --format ctranslate2`` wrote.

        Args:
            directory: with model.bin.
            model: the model's settings.
            tokenizers: the model's.
            device: where to compute, 'cpu' say, and the number of the GPU.
            precision: of matrix products; 'auto' is that of the weights, int8 say.
            threads: batches searched side by side on a CPU.
            check_loads: called before the model is loaded, once all other files are found right.

        Raises:
            CheckpointError: a file is missing or damaged.
            UsageError: the device cannot compute like that.
            MissingExtraError: CTranslate2 is not installed.
        """
        ctranslate2 = import_extra("ctranslate2", None, "CTranslate2's search")
        _check_settings(directory / "config.json")
        src_names = _load_names(directory, "source", tokenizers.src.size)
        tgt_names = _load_names(directory, "target", tokenizers.tgt.size)
        if check_loads is not None:
            check_loads()
        try:
            translator = ctranslate2.Translator(
                str(directory),
                device=device[0],
                device_index=device[1],
                compute_type="default" if precision == "auto" else precision,
                inter_threads=threads if device[0] == "cpu" else 1,
                intra_threads=1,
            )
        except ValueError as error:
            raise UsageError(f"CTranslate2 cannot compute like that: {error}") from error
        except RuntimeError as error:
            raise CheckpointError(
                f"{directory}: CTranslate2 cannot read it ({error}); export it again"
            ) from error
        tgt_ids = {name: number for number, name in enumerate(tgt_names)}
        learned = model.positions == "learned"
        return cls(translator, src_names, tgt_ids, model.max_positions if learned else SINUSOIDS)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Settings that decide the output: the precision that it has chosen, and its name."""
        return {"precision": self.translator.compute_type, "engine": "ctranslate2"}

    def search(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source; see ``SearchEngine.search``.

        The output is ``TorchEngine``'s, up to rounding, if search is greedy. Log-probabilities
        differ, and so may beam search, in that tokens which are never written have no share: by
        much where training targets had <unk>.
        """
        assert not any(prefixes), "CTranslate2 forces no prefix"
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        waiting: deque[tuple[list[int], list[Any]]] = deque()

        def take() -> None:
            batch, started = waiting.popleft()
            for index, one in zip(batch, started, strict=True):
                outputs[index] = self._rank(one.result(), options.length_penalty)
            if progress is not None:
                progress(len(batch))

        limits = [min(limit, self.max_positions) for limit in max_lengths]
        max_tokens = min(batch_tokens // options.beam_size, _BATCH_TOKENS)
        for limit, batch in _cut_batches([len(ids) for ids in sources], limits, max_tokens):
            if should_stop is not None and should_stop():
                break
            started = self._start([sources[index] for index in batch], limit, options)
            waiting.append((batch, started))
            if len(waiting) > _AHEAD * self.translator.num_translators:
                take()
        while waiting:
            take()
        return outputs

    def _start(self, sources: list[list[int]], limit: int, options: SearchOptions) -> list[Any]:
        banned = [[SPECIALS[number]] for number in options.banned_ids if number != UNK_ID]
        started: list[Any] = self.translator.translate_batch(
            # CTranslate2 adds EOS.
            [[self.src_names[number] for number in ids[:-1]] for ids in sources],
            asynchronous=True,
            beam_size=options.beam_size,
            num_hypotheses=options.beam_size,
            length_penalty=_NO_PENALTY,
            return_scores=True,
            return_end_token=True,
            disable_unk=UNK_ID in options.banned_ids,
            suppress_sequences=banned,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
        )
        return started

    def _rank(self, result: Any, length_penalty: float) -> list[Hypothesis]:
        """Return the hypotheses of a source, best first."""
        hypotheses = [
            Hypothesis([self.tgt_ids[name] for name in names], score)
            for names, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        ended = [
            Hypothesis(one.ids[:-1], one.log_probability)
            for one in hypotheses
            if one.ids[-1:] == [EOS_ID]
        ]
        # Those that reached the limit count only where none has ended, and then the best of them.
        return rank_hypotheses(ended, length_penalty) or hypotheses[:1]

    def align(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
    ) -> list[list[int]]:
        """Raise: there are no alignments."""
        raise NotImplementedError("CTranslate2Engine.supports_alignments is false")


def find_obstacle(model: ModelConfig) -> str | None:
    """Return the setting of a model that CTranslate2 does not support, or None."""
    for key, values in SUPPORTED.items():
        if getattr(model, key) not in values:
            return f"model.{key}: {getattr(model, key)}"
    return None


def _cut_batches(
    lengths: Sequence[int], limits: Sequence[int], max_tokens: int
) -> Iterator[tuple[int, list[int]]]:
    """Yield the places of sources of the same output limit, which CTranslate2 has for a batch."""
    order = sorted(filter(lengths.__getitem__, range(len(lengths))), key=lengths.__getitem__)
    for limit, alike in groupby(reversed(order), limits.__getitem__):
        for batch in cut_by_tokens(np.array(list(alike)), np.array(lengths), max_tokens):
            yield limit, batch.tolist()


def _check_settings(path: Path) -> None:
    """Check that CTranslate2 begins, ends and reads as our search does."""
    settings = _read_json(path, dict)
    for key, expected in _SETTINGS.items():
        found = settings.get(key)
        if found != expected:
            raise CheckpointError(
                f"{path}: {key} is {shorten(str(found))}, not {expected}; export the model again"
            )


def _read_json(path: Path, kind: type[_Content]) -> _Content:
    try:
        content = json.loads(read_small(path, MAX_TOKENIZER_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read; export the model again") from error
    if not isinstance(content, kind):
        what = "settings" if kind is dict else "list of tokens"
        raise CheckpointError(f"{path}: is no {what}; export the model again")
    return content


def _load_names(directory: Path, side: str, size: int) -> list[str]:
    """Return the tokens of a side by id."""
    own, shared = directory / f"{side}_vocabulary.json", directory / "shared_vocabulary.json"
    path = own if own.is_file() else shared
    names = _read_json(path, list)
    if len(names) != size:
        raise CheckpointError(
            f"{path}: {len(names)} tokens, but the tokenizer has {size}; export the model again"
        )
    return names

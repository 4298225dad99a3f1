"""Searching by CTranslate2, which has int8 and so is faster on a CPU than torch."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.yaml import load_config
from transformer_cli.data.batches import cut_by_tokens
from transformer_cli.errors import CheckpointError, RunError, UsageError
from transformer_cli.extras import imported
from transformer_cli.files import sha256
from transformer_cli.inference.lines import ignore, never
from transformer_cli.inference.search import Hypothesis
from transformer_cli.inference.translator import Translator
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS

SINUSOIDS = 2_100
"""Positions of an exported model that has learned none: the longest source of a line, 1,024 tokens,
and its longest output, twice that plus ten, have room."""
SETTINGS = "settings.yaml"
"""The run's settings in an exported model's directory, which is no run's: it has no config.yaml."""
# Source tokens in a batch. More of them are no faster, and cores get less even shares.
_BATCH_TOKENS = 2048
# Batches given to CTranslate2 and not yet taken back, for each of its workers.
_AHEAD = 2
# CTranslate2 stops at the first likely end if there is no penalty at all; ours is computed here.
_NO_PENALTY = 1e-30


@dataclass
class CTranslate2Translator(Translator):
    """A translator whose search is CTranslate2's, who has the model: there is none in ``model``.

    Attributes:
        engine: a ``ctranslate2.Translator``.
        src_names: the source's tokens as CTranslate2 is given them, by id.
        tgt_ids: the ids of the target's tokens, as it gives them.
    """

    engine: Any = None
    src_names: list[str] = field(default_factory=list)
    tgt_ids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(
        cls, directory: Path, device: torch.device, precision: PrecisionName, threads: int
    ) -> "CTranslate2Translator":
        """The translator of a directory that ``export --format ctranslate2`` wrote.

        Args:
            directory: with model.bin.
            device: where to compute.
            precision: of matrix products; 'auto' is that of the weights, int8 say.
            threads: batches searched side by side on a CPU.

        Raises:
            ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
            UsageError: the device cannot compute like that.
            MissingExtraError: CTranslate2 is not installed.
        """
        ctranslate2 = imported("ctranslate2", "export", "--engine ctranslate2")
        if not (directory / SETTINGS).is_file():
            raise RunError(
                f"{directory}: has a model of CTranslate2's, but no {SETTINGS}; make it by: "
                "transformer-cli export RUN DIR --format ctranslate2"
            )
        config = load_config(directory / SETTINGS)
        tokenizers = load_tokenizers(RunDirectory(directory).tokenizer)
        src_names = _names(directory, "source", tokenizers.src.size)
        tgt_names = _names(directory, "target", tokenizers.tgt.size)
        try:
            engine = ctranslate2.Translator(
                str(directory),
                device=device.type,
                device_index=device.index or 0,
                compute_type="default" if precision == "auto" else precision,
                inter_threads=threads if device.type == "cpu" else 1,
                intra_threads=1,
            )
        except ValueError as error:
            raise UsageError(f"--engine ctranslate2: {error}") from error
        except RuntimeError as error:
            raise CheckpointError(
                f"{directory}: CTranslate2 cannot read it ({error}); export it again"
            ) from error
        return cls(
            cast("Transformer", None),
            tokenizers,
            config,
            config.decoding,
            torch.float32,
            checkpoint=sha256(directory / "model.bin"),
            engine=engine,
            src_names=src_names,
            tgt_ids={name: number for number, name in enumerate(tgt_names)},
        )

    @property
    def terms(self) -> dict[str, str]:
        """What decides the translation of a line, each by its name."""
        return {**super().terms, "engine": "ctranslate2", "precision": self.engine.compute_type}

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        progress: Callable[[int], object] = ignore,
        give_up: Callable[[], bool] = never,
    ) -> list[list[Hypothesis]]:
        """As ``Translator.search_ids``: the same output, up to rounding, if search is greedy.

        Log-probabilities differ, and so may beam search, in that tokens which are never written
        have no share. There are no ``prefixes``.
        """
        assert not any(prefixes or ()), "outputs cannot be made to begin with anything"
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        waiting: deque[tuple[list[int], list[Any]]] = deque()

        def take() -> None:
            batch, started = waiting.popleft()
            for index, one in zip(batch, started, strict=True):
                outputs[index] = self._ranked(one.result())
            progress(len(batch))

        for limit, batch in self._batches([len(ids) for ids in sources]):
            if give_up():
                break
            waiting.append((batch, self._start([sources[index] for index in batch], limit)))
            if len(waiting) > _AHEAD * self.engine.num_translators:
                take()
        while waiting:
            take()
        return outputs

    def _batches(self, lengths: list[int]) -> Iterator[tuple[int, list[int]]]:
        """The places of sources with the same longest output, which CTranslate2 has for a batch."""
        order = sorted(filter(lengths.__getitem__, range(len(lengths))), key=lengths.__getitem__)
        most = min(self.decoding.batch_tokens // self.decoding.beam_size, _BATCH_TOKENS)
        for limit, alike in groupby(reversed(order), lambda index: self._limit(lengths[index])):
            for batch in cut_by_tokens(np.array(list(alike)), np.array(lengths), most):
                yield limit, batch.tolist()

    def _limit(self, length: int) -> int:
        limit = self._longest_output(length - 1)
        return min(limit, SINUSOIDS) if self.positions is None else limit

    def _start(self, sources: list[list[int]], limit: int) -> list[Any]:
        beam_size = self.decoding.beam_size
        started: list[Any] = self.engine.translate_batch(
            # CTranslate2 adds the end mark.
            [[self.src_names[number] for number in ids[:-1]] for ids in sources],
            asynchronous=True,
            beam_size=beam_size,
            num_hypotheses=beam_size,
            length_penalty=_NO_PENALTY,
            return_scores=True,
            return_end_token=True,
            disable_unk=True,
            suppress_sequences=[[SPECIALS[BOS_ID]], [SPECIALS[PAD_ID]]],
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
        )
        return started

    def _ranked(self, result: Any) -> list[Hypothesis]:
        """What was found for a source, best first."""
        found = [
            Hypothesis([self.tgt_ids[name] for name in names], score)
            for names, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        ended = [
            Hypothesis(each.ids[:-1], each.log_probability)
            for each in found
            if each.ids[-1:] == [EOS_ID]
        ]
        alpha = self.decoding.length_penalty
        # Those that reached the limit count only where none has ended, and then the best of them.
        return sorted(ended, key=lambda one: one.score(alpha), reverse=True) or found[:1]


def _names(directory: Path, side: str, size: int) -> list[str]:
    """The tokens of a side by id.

    Raises:
        CheckpointError: the file that has them is missing, damaged or another tokenizer's.
    """
    own, shared = directory / f"{side}_vocabulary.json", directory / "shared_vocabulary.json"
    path = own if own.is_file() else shared
    try:
        names = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read; export the model again") from error
    if not isinstance(names, list):
        raise CheckpointError(f"{path}: is no list of tokens; export the model again")
    if len(names) != size:
        raise CheckpointError(
            f"{path}: {len(names)} tokens, but the tokenizer has {size}; export the model again"
        )
    return names

"""Text in, text out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise

import numpy as np
import torch

from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.data.batches import cut_by_tokens, pad_rows
from transformer_cli.errors import InputError
from transformer_cli.inference.search import SearchOptions, search
from transformer_cli.inference.workers import map_on_cores
from transformer_cli.model.device import autocast
from transformer_cli.model.products import packed_weights
from transformer_cli.model.transformer import Transformer
from transformer_cli.ranks import ALONE, Ranks
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import load_trained
from transformer_cli.text.tokenizer import Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

CHUNK_LINES = 4096
"""Lines read, sorted by length and translated together when translating a stream."""
LONGEST_SOURCE = 1024
"""Most tokens of a line that is translated as one: attention's cost grows with their square."""


def ignore(what: object) -> None:
    """Take no notice, of progress say."""


def never() -> bool:
    """Do not give up."""
    return False


@dataclass(frozen=True)
class CutLine:
    """A line too long to be translated as one."""

    line: int
    """Its number, from 1."""
    tokens: int
    pieces: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.tokens:,} tokens, translated in {self.pieces:,} pieces"


@dataclass
class Translator:
    """A model, its tokenizers and how to search.

    Attributes:
        model: on its device.
        tokenizers: the run's.
        config: the run's settings.
        decoding: how to search; the run's settings unless the caller wants otherwise.
        precision: type of the matrix products.
        max_length: most tokens of an output, whatever its source; None: no such limit.
        checkpoint: SHA-256 of the manifest that the weights were loaded by; empty for others.
    """

    model: Transformer
    tokenizers: Tokenizers
    config: Config
    decoding: DecodingConfig
    precision: torch.dtype
    max_length: int | None = None
    checkpoint: str = ""

    @classmethod
    def load(
        cls, run: RunDirectory, checkpoint: str, device: torch.device, precision: torch.dtype
    ) -> "Translator":
        """The translator of a trained run.

        Args:
            run: the run's directory.
            checkpoint: 'best', 'last', 'average' or a checkpoint's path.
            device: where to compute.
            precision: type of the matrix products.

        Raises:
            RunError, TokenizerError, CheckpointError: something is missing or damaged.
        """
        trained = load_trained(run, checkpoint)
        return cls(
            trained.model.to(device),
            trained.tokenizers,
            trained.config,
            trained.config.decoding,
            precision,
            checkpoint=trained.sum,
        )

    def searching(
        self,
        beam_size: int | None = None,
        batch_tokens: int | None = None,
        max_length: int | None = None,
    ) -> "Translator":
        """The same translator with another search; None keeps what it has."""
        asked = {"beam_size": beam_size, "batch_tokens": batch_tokens}
        changes = {key: value for key, value in asked.items() if value is not None}
        return replace(
            self,
            decoding=self.decoding.model_copy(update=changes),
            max_length=max_length or self.max_length,
        )

    @property
    def terms(self) -> dict[str, str]:
        """What decides the translation of a line, each by its name."""
        search = self.decoding.model_dump(mode="json", exclude={"batch_tokens"})
        return {
            "checkpoint": self.checkpoint,
            "precision": str(self.precision).removeprefix("torch."),
            "max_length": str(self.max_length),
            **{key: str(value) for key, value in search.items()},
        }

    def translate_stream(
        self,
        lines: Iterable[str],
        chunk_lines: int = CHUNK_LINES,
        first_line: int = 1,
        on_cut: Callable[[CutLine], object] = ignore,
        ranks: Ranks = ALONE,
    ) -> Iterator[str]:
        """One translation a line, in order, holding ``chunk_lines`` of them at a time.

        Args:
            lines: text without line ends.
            chunk_lines: lines sorted by length and translated together, on each rank.
            first_line: the number of the first line, for messages.
            on_cut: told of each line too long to be translated as one, on the rank that has it.
            ranks: who shares the work; all of them get all translations.
        """
        remaining = iter(lines)
        while chunk := list(islice(remaining, chunk_lines * ranks.size)):
            share = partial(self._translate_share, first_line, on_cut, ranks)
            yield from ranks.map(share, chunk)
            first_line += len(chunk)

    def _translate_share(
        self,
        first_line: int,
        on_cut: Callable[[CutLine], object],
        ranks: Ranks,
        lines: Sequence[str],
    ) -> list[str]:
        def told(cut: CutLine) -> None:
            place = ranks.rank + (cut.line - 1) * ranks.size
            on_cut(replace(cut, line=first_line + place))

        return self.translate(lines, on_cut=told)

    def translate(
        self,
        lines: Sequence[str],
        progress: Callable[[int], object] = ignore,
        on_cut: Callable[[CutLine], object] = ignore,
        give_up: Callable[[], bool] = never,
    ) -> list[str]:
        """One translation a line; a blank line's is empty.

        A line of more than ``longest_source`` tokens is cut into as few pieces as will do, as equal
        as can be; their translations are joined by spaces.

        Args:
            lines: text without line ends.
            progress: told how many sentences, or pieces, were finished each time some are.
            on_cut: told of each line that is cut, before any is translated.
            give_up: asked before each batch; once it is true, what is left has empty translations.
        """
        sources = [self.tokenizers.src.encode(line) for line in lines]
        for cut in self.cut_lines([len(ids) for ids in sources]):
            on_cut(cut)
        pieces: list[list[int]] = []
        owners: list[int] = []
        for index, ids in enumerate(sources):
            cut_ids = _cut(ids, self.longest_source)
            pieces += [[*piece, EOS_ID] for piece in cut_ids]
            owners += [index] * len(cut_ids)
        translations: list[list[str]] = [[] for _ in lines]
        found = self.translate_ids(pieces, progress, give_up)
        for owner, ids in zip(owners, found, strict=True):
            translations[owner].append(self.tokenizers.tgt.decode(ids))
        return [" ".join(filter(None, each)) for each in translations]

    @property
    def longest_source(self) -> int:
        """Most tokens of a source, without its end mark, that is translated as one."""
        limit = self._positions
        return LONGEST_SOURCE if limit is None else min(LONGEST_SOURCE, limit - 1)

    def cut_lines(self, lengths: Iterable[int]) -> Iterator[CutLine]:
        """Which lines, given the tokens of each, are too long to be translated as one."""
        for line, tokens in enumerate(lengths, start=1):
            if tokens > self.longest_source:
                yield CutLine(line, int(tokens), int(-(-tokens // self.longest_source)))

    def translate_ids(
        self,
        sources: Sequence[list[int]],
        progress: Callable[[int], object] = ignore,
        give_up: Callable[[], bool] = never,
    ) -> list[list[int]]:
        """The translations of token ids, as token ids without begin and end marks.

        Args:
            sources: each with its end mark, or empty, which stays empty.
            progress: told how many sentences were finished each time some are.
            give_up: asked before each batch; once it is true, what is left stays empty.
        """
        outputs: list[list[int]] = [[] for _ in sources]
        lengths = np.array([len(ids) for ids in sources])
        # Longest first: what does not fit into memory fails at once. Empty ones are left out.
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        # Each hypothesis of a beam takes as much memory as a sentence.
        batch_tokens = self.decoding.batch_tokens // self.decoding.beam_size
        device = next(self.model.parameters()).device
        batches = list(cut_by_tokens(order, lengths, batch_tokens))

        def search_batch(batch: np.ndarray) -> list[list[int]]:
            if give_up():
                return [[] for _ in batch]
            with autocast(device, self.precision):
                return self._search([sources[index] for index in batch], device)

        with autocast(device, self.precision), packed_weights(self.model):
            for batch, found in zip(
                batches, map_on_cores(search_batch, batches, device), strict=True
            ):
                for index, ids in zip(batch, found, strict=True):
                    outputs[index] = ids
                progress(len(batch))
        return outputs

    def refuse_too_long(self, lengths: np.ndarray, what: str) -> None:
        """Make sure that the model has positions enough.

        Args:
            lengths: tokens of each line, without begin and end marks.
            what: what a line is called in the message.

        Raises:
            InputError: a line has more tokens than learned positions take.
        """
        limit = self._positions
        if limit is None or not (lengths >= limit).any():
            return
        index = int(np.argmax(lengths >= limit))
        raise InputError(
            f"{what} {1 + index}: {lengths[index]} tokens, but this model's learned positions "
            f"take {limit - 1} (model.max_positions); split it, "
            "or train with more positions"
        )

    @property
    def _positions(self) -> int | None:
        model = self.config.model
        return model.max_positions if model.positions == "learned" else None

    def _search(self, sources: list[list[int]], device: torch.device) -> list[list[int]]:
        options = SearchOptions(
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            banned_ids=(UNK_ID, BOS_ID, PAD_ID),
            beam_size=self.decoding.beam_size,
            length_penalty=self.decoding.length_penalty,
        )
        max_lengths = torch.tensor([self._longest_output(len(ids) - 1) for ids in sources])
        found = search(self.model, pad_rows(sources).to(device), max_lengths.to(device), options)
        return [hypothesis.ids for hypothesis in found]

    def _longest_output(self, src_tokens: int) -> int:
        # A half-trained model repeats itself for ever; a translation is seldom twice its source.
        limits = [int(src_tokens * self.decoding.max_length_ratio) + 10]
        limits += [limit for limit in (self.max_length, self._positions) if limit is not None]
        return min(limits)


def _cut(ids: list[int], longest: int) -> list[list[int]]:
    """Cut ids into as few pieces of at most ``longest`` as will do, as equal as can be.

    A line of nothing but white space, or of characters that are none to see, has no piece.
    """
    count = -(-len(ids) // longest)
    ends = [len(ids) * piece // max(1, count) for piece in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(ends)]

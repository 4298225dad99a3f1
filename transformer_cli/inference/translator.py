"""Text in, text out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.errors import InputError, UsageError
from transformer_cli.inference.batching import search_batches
from transformer_cli.inference.lines import CutLine, ignore, never, translate_lines
from transformer_cli.inference.search import Hypothesis, SearchOptions
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import load_trained
from transformer_cli.text.tokenizer import Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID


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
        replace_unk: whether the model may write words that it does not know; they are then taken
            over from the source.
        checkpoint: SHA-256 of the manifest that the weights were loaded by; empty for others.
    """

    model: Transformer
    tokenizers: Tokenizers
    config: Config
    decoding: DecodingConfig
    precision: torch.dtype
    max_length: int | None = None
    checkpoint: str = ""
    replace_unk: bool = False

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
            **({"replace_unk": "True"} if self.replace_unk else {}),
        }

    def replacing_unknown(self) -> "Translator":
        """The same translator, but words that it does not know it takes over from the source.

        Raises:
            UsageError: it writes subwords, which know all words.
        """
        if not self.tokenizers.tgt.is_word_level:
            raise UsageError(
                "--replace-unk: is for models of whole words; this one writes parts of words, "
                "which make up any word; leave it out"
            )
        return replace(self, replace_unk=True)

    def translate(
        self,
        lines: Sequence[str],
        progress: Callable[[int], object] = ignore,
        on_cut: Callable[[CutLine], object] = ignore,
        give_up: Callable[[], bool] = never,
    ) -> list[str]:
        """The best translation of each line; ``translate_lines`` tells more.

        Args:
            lines: text without line ends.
            progress: told how many sentences, or pieces, were finished each time some are.
            on_cut: told of each line that is cut, before any is translated.
            give_up: asked before each batch; once it is true, what is left has empty translations.
        """
        found = translate_lines(self, lines, progress=progress, on_cut=on_cut, give_up=give_up)
        return [best.text for best, *_ in found]

    @property
    def longest_source(self) -> int:
        """Most tokens of a source, without its end mark, that is translated as one."""
        limit = self.positions
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
        """The best translations of token ids, as token ids without begin and end marks.

        Args:
            sources: each with its end mark, or empty, which stays empty.
            progress: told how many sentences were finished each time some are.
            give_up: asked before each batch; once it is true, what is left stays empty.
        """
        found = self.search_ids(sources, None, progress, give_up)
        return [hypotheses[0].ids if hypotheses else [] for hypotheses in found]

    def search_ids(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]] | None = None,
        progress: Callable[[int], object] = ignore,
        give_up: Callable[[], bool] = never,
    ) -> list[list[Hypothesis]]:
        """What is found for each source, best first: all that text is translated by.

        Args:
            sources: token ids, each with its end mark, or empty: then nothing is found.
            prefixes: what each one's outputs begin with.
            progress: told how many sentences were finished each time some are.
            give_up: asked before each batch; once it is true, nothing is found for what is left.
        """
        prefixes = prefixes or [[] for _ in sources]
        return search_batches(
            self.model,
            sources,
            prefixes,
            [
                max(self._longest_output(len(ids) - 1), len(prefix))
                for ids, prefix in zip(sources, prefixes, strict=True)
            ],
            SearchOptions(
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                banned_ids=(BOS_ID, PAD_ID) if self.replace_unk else (UNK_ID, BOS_ID, PAD_ID),
                beam_size=self.decoding.beam_size,
                length_penalty=self.decoding.length_penalty,
            ),
            self.decoding.batch_tokens,
            self.precision,
            progress,
            give_up,
        )

    def refuse_too_long(self, lengths: np.ndarray, what: str) -> None:
        """Make sure that the model has positions enough.

        Args:
            lengths: tokens of each line, without begin and end marks.
            what: what a line is called in the message.

        Raises:
            InputError: a line has more tokens than learned positions take.
        """
        limit = self.positions
        if limit is None or not (lengths >= limit).any():
            return
        index = int(np.argmax(lengths >= limit))
        raise InputError(
            f"{what} {1 + index}: {lengths[index]} tokens, but this model's learned positions "
            f"take {limit - 1} (model.max_positions); split it, "
            "or train with more positions"
        )

    @property
    def positions(self) -> int | None:
        """Most tokens that learned positions take, marks included; None: there is no such limit."""
        model = self.config.model
        return model.max_positions if model.positions == "learned" else None

    def _longest_output(self, src_tokens: int) -> int:
        # A half-trained model repeats itself for ever; a translation is seldom twice its source.
        limits = [int(src_tokens * self.decoding.max_length_ratio) + 10]
        limits += [limit for limit in (self.max_length, self.positions) if limit is not None]
        return min(limits)

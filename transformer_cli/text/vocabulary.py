"""A vocabulary of tokens and their ids, kept as a plain text file."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.compression import write_text
from transformer_cli.base.errors import TokenizerError

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
SPECIALS = ("<unk>", "<BOS>", "<EOS>", "<PAD>")
_MAX_BYTES = 1 << 26  # several million words; a token takes 200 bytes of memory


class Vocabulary:
    """Tokens numbered from 0: the four special tokens first, then those given, all different."""

    def __init__(self, tokens: Iterable[str]) -> None:
        ordinary = tuple(tokens)
        self.tokens = SPECIALS + ordinary
        # Without the special tokens: text that spells '<PAD>' must not become padding.
        self.ids = {token: number for number, token in enumerate(ordinary, len(SPECIALS))}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        min_freq: int = 1,
        max_size: int | None = None,
        order: Literal["frequency", "appearance"] = "frequency",
    ) -> Self:
        """Build a vocabulary from the frequencies of tokens, in order of first appearance.

        ``max_size`` counts the four special tokens; the most frequent others are kept. Ties of
        ``order`` by falling frequency are broken by the token.
        """
        seen = [t for t, count in counts.items() if count >= min_freq and t not in SPECIALS]
        by_frequency = sorted(seen, key=lambda token: (-counts[token], token))
        kept = by_frequency[: None if max_size is None else max(0, max_size - len(SPECIALS))]
        if order == "appearance":
            staying = set(kept)
            kept = [token for token in seen if token in staying]
        return cls(kept)

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        """Return the id of a token of text; 0 if it is unknown or spelled like a special token."""
        return self.ids.get(token, UNK_ID)

    def save(self, path: Path) -> None:
        r"""Write one token per line, line n (from 0) being id n; UTF-8, ended by '\n' alone."""
        write_text(path, "".join(f"{token}\n" for token in self.tokens))

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Self:
        """Return what ``save`` wrote into ``path``; raise TokenizerError if it did not write it."""
        text = data[:_MAX_BYTES].decode(errors="replace")
        # Not splitlines(), which also splits at U+2028, U+0085 and others that tokens may contain.
        *tokens, rest = text.split("\n")
        is_whole = text.encode() == data and not rest and all(tokens)
        if not is_whole or tokens[: len(SPECIALS)] != [*SPECIALS] or len(set(tokens)) < len(tokens):
            raise TokenizerError(
                f"{path}: no vocabulary of {_MAX_BYTES >> 20} MiB at most: {', '.join(SPECIALS)}, "
                "then other tokens, all different, one a line, in UTF-8; restore the file, or "
                "learn the tokenizer again"
            )
        return cls(tokens[len(SPECIALS) :])


class SpecialIds(BaseModel):
    """The ids of a model's special tokens, in that model; None: it has no such token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    unk: int | None
    bos: int | None
    eos: int | None
    pad: int | None


class IdMap:
    """Maps a model's ids to the run's: special tokens are 0 to 3, the others follow in their order.

    A special token that the model lacks has an id in the run all the same, which stands for nothing
    in the model. ValueError is raised if two have the same id, or one an id that does not exist.
    """

    def __init__(self, specials: SpecialIds, ids: Iterable[int]) -> None:
        in_run_order = (specials.unk, specials.bos, specials.eos, specials.pad)
        named = [number for number in in_run_order if number is not None]
        rest = set(ids)
        if len(set(named)) < len(named) or not rest.issuperset(named):
            raise ValueError(f"its specials cannot have the ids {named}")
        self._model_ids: list[int | None] = [*in_run_order, *sorted(rest.difference(named))]
        numbered = enumerate(self._model_ids)
        self._run_ids = {model_id: n for n, model_id in numbered if model_id is not None}
        # Text that spells BOS, EOS or PAD must not become one.
        for special in (BOS_ID, EOS_ID, PAD_ID):
            if (model_id := self._model_ids[special]) is not None:
                self._run_ids[model_id] = UNK_ID

    def __len__(self) -> int:
        """Return the number of the run's ids."""
        return len(self._model_ids)

    def to_run(self, model_ids: Iterable[int]) -> list[int]:
        """Return the run's ids of text that the model encoded; BOS, EOS and PAD become unknown."""
        table = self._run_ids
        return [table[number] for number in model_ids]

    def to_model(self, run_ids: Sequence[int]) -> list[int]:
        """Return the model's ids, without BOS, EOS, PAD and what the model lacks."""
        model_ids = (self._model_ids[n] for n in run_ids if n not in (BOS_ID, EOS_ID, PAD_ID))
        return [number for number in model_ids if number is not None]

    def rows(self, missing: int) -> list[int]:
        """Return the model's id of each id of the run, ``missing`` where the model has none."""
        return [missing if number is None else number for number in self._model_ids]

    def model_id(self, run_id: int) -> int | None:
        """Return the model's id of an ordinary token; None for special tokens."""
        return None if run_id < len(SPECIALS) else self._model_ids[run_id]

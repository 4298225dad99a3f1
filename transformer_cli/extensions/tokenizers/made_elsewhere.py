"""Tokenizers whose files were made elsewhere; a run copies them and renumbers their ids."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from transformer_cli.base.files import sha256
from transformer_cli.extensions.tokenizers.settings import FilesSection
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID
from transformer_cli.text.tokenizer import Side, TokenizerManifest, TrainingText, read_file


class SpecialIds(BaseModel):
    """The ids that a tokenizer's model gives its special tokens; None if it has no such token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    unk: int | None
    bos: int | None
    eos: int | None
    pad: int | None


class IdMap:
    """A map from a tokenizer model's ids to the run's: 0 to 3 for special tokens, then the others.

    The others keep their order. A special token that the model lacks has an id in the run only.
    ValueError is raised if two special tokens have the same id, or one has an unknown id.
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
        # BOS, EOS or PAD spelled in text must not become the special token.
        for special in (BOS_ID, EOS_ID, PAD_ID):
            if (model_id := self._model_ids[special]) is not None:
                self._run_ids[model_id] = UNK_ID

    def __len__(self) -> int:
        """Return the number of ids in the run."""
        return len(self._model_ids)

    def to_run(self, model_ids: Iterable[int]) -> list[int]:
        """Convert the model's ids of a text to the run's; BOS, EOS and PAD become UNK."""
        table = self._run_ids
        return [table[number] for number in model_ids]

    def to_model(self, run_ids: Sequence[int]) -> list[int]:
        """Convert the run's ids to the model's; drop BOS, EOS, PAD and what the model lacks."""
        model_ids = (self._model_ids[n] for n in run_ids if n not in (BOS_ID, EOS_ID, PAD_ID))
        return [number for number in model_ids if number is not None]

    def rows(self, missing: int) -> list[int]:
        """Return the model's id for each id in the run, or ``missing`` where the model has none."""
        return [missing if number is None else number for number in self._model_ids]

    def model_id(self, run_id: int) -> int | None:
        """Return the model's id of an ordinary token, or None for a special token."""
        return None if run_id < len(SPECIALS) else self._model_ids[run_id]


class FilesManifest(TokenizerManifest):
    """A run's manifest of tokenizer files that were made elsewhere and copied."""

    specials: dict[Side, SpecialIds]
    """The ids of the special tokens in each side's file."""

    @model_validator(mode="after")
    def _has_specials_of_files(self) -> Self:
        if {self.file_name(side) for side in self.specials} != self.sha256.keys():
            raise ValueError("specials: do not belong to the files in sha256")
        return self

    def is_made_by(self, config: FilesSection) -> bool:
        """Return whether the run's files are copies of the files in ``config``.

        An original that no longer exists counts as unchanged, because the copy is enough.
        """
        copied = set(self.sha256.values())
        return all(sha256(path) in copied for path in config.files.values() if path.is_file())

    @classmethod
    def learn(cls, config: FilesSection, text: TrainingText, directory: Path) -> Self:
        """Copy the files in ``config``; return a manifest with the ids of their special tokens."""
        advice = "the config names it as its tokenizer's file"
        models = {side: read_file(path, advice) for side, path in config.files.items()}
        specials = {
            side: cls.find_specials(models[side], path) for side, path in config.files.items()
        }
        return cls.write(
            models.items(), directory, config.lowercase, text.sha256, specials=specials
        )

    @staticmethod
    @abstractmethod
    def find_specials(model: bytes, source: Path) -> SpecialIds:
        """Return the ids of the special tokens of a file with these bytes, read from ``source``."""

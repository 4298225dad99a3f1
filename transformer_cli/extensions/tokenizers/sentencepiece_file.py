"""Tokenizers that use SentencePiece models made elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from transformer_cli.base.errors import TokenizerError
from transformer_cli.extensions.tokenizers.made_elsewhere import FilesManifest, IdMap, SpecialIds
from transformer_cli.text.protocol import SPECIALS
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, open_model
from transformer_cli.text.tokenizer import Side


class SentencePieceFileTokenizer(SentencePieceTokenizer):
    """A SentencePiece tokenizer made elsewhere; it decodes UNK as the model's unknown symbol."""

    def __init__(self, model: bytes, lowercase: bool, source: Path, specials: SpecialIds) -> None:
        super().__init__(model, lowercase, source)
        try:
            self._id_map = IdMap(specials, range(self._processor.get_piece_size()))
        except ValueError as error:
            raise TokenizerError(f"{source}: {error}; restore tokenizer.json") from error
        self.size = len(self._id_map)

    def _check_specials(self, source: Path) -> None:
        """Accept any ids of special tokens, because ``IdMap`` converts them."""

    def encode(self, line: str) -> list[int]:
        return self._id_map.to_run(super().encode(line))

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(self._id_map.to_model(ids)))

    def token(self, number: int) -> str:
        model_id = self._id_map.model_id(number)
        return SPECIALS[number] if model_id is None else str(self._processor.id_to_piece(model_id))


class SentencePieceFileManifest(FilesManifest):
    """A run's manifest of SentencePiece models that were made elsewhere and copied."""

    kind: Literal["sentencepiece_file"] = "sentencepiece_file"
    suffix = "model"

    def open(self, data: bytes, path: Path, side: Side) -> SentencePieceFileTokenizer:
        return SentencePieceFileTokenizer(data, self.lowercase, path, self.specials[side])

    @staticmethod
    def find_specials(model: bytes, source: Path) -> SpecialIds:
        """Return the ids of a model's special tokens; if two share an id, the second is None."""
        processor = open_model(model, source, "give a model that SentencePiece made")
        ids: dict[str, int | None] = {}
        for name in ("unk", "bos", "eos", "pad"):
            number = getattr(processor, f"{name}_id")()
            ids[name] = None if number < 0 or number in ids.values() else number
        return SpecialIds(**ids)

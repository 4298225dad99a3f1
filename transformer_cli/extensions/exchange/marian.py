"""The tokenizers of Marian models: two SentencePiece models, and vocabularies with token ids.

SentencePiece splits text into subwords. Their ids come from Marian's own vocabularies: one per
language, or a joint one. transformers' MarianTokenizer returns the same subwords, except that it
also reads text with spaces between '>>' and '<<' as a language code.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NoReturn

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.files import sha256
from transformer_cli.base.text_files import write_text
from transformer_cli.extensions.exchange.imported import MarianConfig
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID
from transformer_cli.text.sentencepiece import SentencePieceTokenizer
from transformer_cli.text.tokenizer import Side, TokenizerManifest, TrainingText
from transformer_cli.text.words import Vocabulary

_CODE = re.compile(r">>\S+?<<")


class MarianTokenizer(SentencePieceTokenizer):
    """A subword tokenizer; a language code before a line, such as '>>fra<<', is one token.

    Subwords that ``vocabulary`` does not contain become the unknown token.
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary, source: Path) -> None:
        super().__init__(model, lowercase=False, source=source)
        self.vocabulary = vocabulary
        self.size = len(vocabulary)

    def _check_specials(self, source: Path) -> None:
        """Accept any SentencePiece model, because its own ids are not used."""

    def token(self, number: int) -> str:
        return self.vocabulary.tokens[number]

    def encode(self, line: str) -> list[int]:
        found = _CODE.match(line)
        code, text = (found[0], line[found.end() :]) if found else ("", line)
        # Compare text, not ids: a character that this side's model does not know may be a piece of
        # the other side's model.
        pieces = self._processor.encode(text, out_type=str)
        return [self.vocabulary.id(piece) for piece in ([code] if code else []) + pieces]

    def _decode(self, ids: Sequence[int]) -> str:
        shown = [self.token(n) for n in ids if n not in (BOS_ID, EOS_ID, PAD_ID)]
        # Pieces of the other side's model keep their mark for a space.
        return str(self._processor.decode_pieces(shown)).replace("▁", " ").strip()


class MarianManifest(TokenizerManifest):
    """A run's manifest of its tokenizers: Marian's SentencePiece models and vocabulary files.

    Line n of a vocabulary file, counted from 0, is the subword with id n in the run.
    """

    kind: Literal["marian"] = "marian"
    suffix = "model"

    def open(self, data: bytes, path: Path, side: Side) -> MarianTokenizer:
        joint = vocabulary_name("joint")
        table = path.with_name(joint if joint in self.sha256 else vocabulary_name(side))
        return MarianTokenizer(data, Vocabulary.parse(self.read_checked(table), table), path)

    @classmethod
    def learn(cls, config: MarianConfig, text: TrainingText, directory: Path) -> NoReturn:
        raise ConfigError(
            "tokenizer.kind marian: this tokenizer cannot be learned; it comes with the run of an "
            "imported model; name that run with init, or choose another kind"
        )


def vocabulary_name(side: Side) -> str:
    """Return the filename of the vocabulary of one side: 'src', 'tgt' or 'joint'."""
    return f"{side}.vocab.txt"


def write_tokenizers(
    models: Mapping[Side, bytes],
    vocabularies: Mapping[Side, Vocabulary],
    source_sha256: str,
    directory: Path,
) -> None:
    """Write SentencePiece models and vocabularies, one per language or joint, and their manifest.

    ``source_sha256`` is recorded instead of the training text's SHA-256, which is unknown.
    """
    manifest = MarianManifest.write(models.items(), directory, False, source_sha256)
    for side, vocabulary in vocabularies.items():
        path = directory / vocabulary_name(side)
        write_text(path, vocabulary.dump())
        manifest.sha256[path.name] = sha256(path)
    manifest.save(directory)

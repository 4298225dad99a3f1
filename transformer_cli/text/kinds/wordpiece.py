"""WordPiece, learned here by Hugging Face's tokenizers library."""

from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import WordPieceConfig
from transformer_cli.text import description
from transformer_cli.text.description import TrainingText
from transformer_cli.text.huggingface import HuggingFaceTokenizer
from transformer_cli.text.kinds.huggingface import Description as FileDescription
from transformer_cli.text.kinds.learned import learn_files, load_files
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.renumbering import Specials
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_cli.text.wordpiece import learn_wordpiece

_OURS = Specials(unk=UNK_ID, bos=BOS_ID, eos=EOS_ID, pad=PAD_ID)


class Description(description.Description):
    """What tokenizer.json says of WordPiece learned here, whose ids are ours."""

    kind: Literal["wordpiece"] = "wordpiece"
    joint: bool

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        return load_files(self.joint, directory, FileDescription.file_name, self._load_side)

    def _load_side(self, path: Path) -> HuggingFaceTokenizer:
        # Its own rules have lowercased the text already.
        return HuggingFaceTokenizer(self.verified(path), False, path, _OURS)


def learn(config: WordPieceConfig, text: TrainingText, directory: Path) -> Description:
    """Learn WordPiece vocabularies and write them into ``directory``.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: ``tokenizer.vocab_size`` is not possible with this text.
    """
    found = learn_files(
        config.joint,
        text,
        directory,
        FileDescription.file_name,
        lambda lines, label: learn_wordpiece(config, lines, label, text.progress),
    )
    return Description(
        lowercase=config.lowercase,
        learned_from=text.text_sha256,
        joint=config.joint,
        sha256=found,
    )

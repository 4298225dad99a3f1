"""WordPiece, learned here by Hugging Face's tokenizers library."""

from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import WordPieceTokenizer
from transformer_cli.files import whole_file
from transformer_cli.text import description
from transformer_cli.text.description import TrainingText, sums
from transformer_cli.text.huggingface import HuggingFaceTokenizer
from transformer_cli.text.lines import Joined, Lines
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.renumbering import Specials
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_cli.text.wordpiece import learn_wordpiece

_SRC, _TGT, _JOINT = (f"{side}.tokenizer.json" for side in ("src", "tgt", "joint"))
_OURS = Specials(unk=UNK_ID, bos=BOS_ID, eos=EOS_ID, pad=PAD_ID)


class Description(description.Description):
    """What tokenizer.json says of WordPiece learned here, whose ids are ours."""

    kind: Literal["wordpiece"] = "wordpiece"
    joint: bool

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        if self.joint:
            joint = self._load_side(directory / _JOINT)
            return Tokenizers(src=joint, tgt=joint)
        return Tokenizers(
            src=self._load_side(directory / _SRC), tgt=self._load_side(directory / _TGT)
        )

    def _load_side(self, path: Path) -> HuggingFaceTokenizer:
        # Its own rules have lowercased the text already.
        return HuggingFaceTokenizer(self.verified(path), False, path, _OURS)


def learn(config: WordPieceTokenizer, text: TrainingText, directory: Path) -> Description:
    """Learn WordPiece vocabularies and write them into ``directory``.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: ``tokenizer.vocab_size`` is not possible with this text.
    """
    texts: dict[str, tuple[Lines, str]] = {
        _SRC: (text.src, "source text"),
        _TGT: (text.tgt, "target text"),
    }
    if config.joint:
        texts = {_JOINT: (Joined(text.src, text.tgt), "training text")}
    for name, (lines, label) in texts.items():
        data = learn_wordpiece(config, lines, label, text.progress)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(data)
    return Description(
        lowercase=config.lowercase,
        learned_from=text.text_sum,
        joint=config.joint,
        sha256=sums(directory, texts),
    )

"""A Hugging Face tokenizer.json made elsewhere."""

from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import HuggingFaceConfig
from transformer_cli.text.description import TrainingText
from transformer_cli.text.huggingface import HuggingFaceTokenizer, find_specials
from transformer_cli.text.kinds import files
from transformer_cli.text.renumbering import Specials


class Description(files.Description):
    """What tokenizer.json says of such files."""

    kind: Literal["huggingface"] = "huggingface"

    @staticmethod
    def file_name(side: files.Side) -> str:
        """The name that a side's file has in a tokenizer's directory."""
        return f"{side}.tokenizer.json"

    def make(self, data: bytes, path: Path, specials: Specials) -> HuggingFaceTokenizer:
        """The tokenizer that a file's bytes are."""
        return HuggingFaceTokenizer(data, self.lowercase, path, specials)


def learn(config: HuggingFaceConfig, text: TrainingText, directory: Path) -> Description:
    """Copy the files that the configuration names into ``directory``.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: a file cannot be read or used.
    """
    specials, found = files.copy_files(
        config.files, directory, Description.file_name, find_specials
    )
    return Description(
        lowercase=config.lowercase, learned_from=text.text_sha256, specials=specials, sha256=found
    )

"""What the kinds share that are files made elsewhere: they are copied, and their specials noted."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from transformer_cli.errors import TokenizerError
from transformer_cli.files import whole_file
from transformer_cli.text import description
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.renumbering import Specials

Side = Literal["src", "tgt", "joint"]
# Bytes, many times those of the largest ones in use.
_LARGEST = 1 << 28


class Description(description.Description):
    """What tokenizer.json says of files made elsewhere.

    Attributes:
        specials: of each file the ids that its specials have in it.
    """

    specials: dict[Side, Specials] = Field(min_length=1, max_length=2)

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        if "joint" in self.specials:
            joint = self._load("joint", directory)
            return Tokenizers(src=joint, tgt=joint)
        return Tokenizers(src=self._load("src", directory), tgt=self._load("tgt", directory))

    def _load(self, side: Side, directory: Path) -> Tokenizer:
        path = directory / self.file_name(side)
        if side not in self.specials:
            raise TokenizerError(
                f"{directory / description.DESCRIPTION}: specials.{side} is missing; "
                "the file is damaged"
            )
        return self.make(self.verified(path), path, self.specials[side])

    @staticmethod
    @abstractmethod
    def file_name(side: Side) -> str:
        """The name that one side's file, or that of both, has in a tokenizer's directory."""

    @abstractmethod
    def make(self, data: bytes, path: Path, specials: Specials) -> Tokenizer:
        """The tokenizer that a file's bytes are."""


def copy_files(
    files: Mapping[Side, Path],
    directory: Path,
    file_name: Callable[[Side], str],
    find: Callable[[bytes, Path], Specials],
) -> tuple[dict[Side, Specials], dict[str, str]]:
    """Copy files made elsewhere into ``directory``, after ``find`` has found them good.

    Returns:
        Where each has its specials, and the copies' SHA-256 by their names.

    Raises:
        TokenizerError: a file cannot be read or used.
    """
    specials = {}
    for side, path in files.items():
        data = read_file(path)
        specials[side] = find(data, path)
        with whole_file(directory / file_name(side)) as temporary:
            temporary.write_bytes(data)
    return specials, description.sums(directory, map(file_name, files))


def read_file(path: Path) -> bytes:
    """The bytes of a file that the configuration names.

    Raises:
        TokenizerError: it is not there, cannot be read, or is far too large.
    """
    try:
        if path.exists() and not path.is_file():
            raise TokenizerError(f"{path}: is no file; give the path of the tokenizer's file")
        if (size := path.stat().st_size) > _LARGEST:
            raise TokenizerError(
                f"{path}: {size:,} bytes; a tokenizer's file has {_LARGEST:,} at most"
            )
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(
            f"{path}: cannot be read ({error.strerror}); the configuration names it as its "
            "tokenizer's file"
        ) from error

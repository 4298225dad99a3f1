"""A tokenizer that a test can follow by hand."""

from collections.abc import Sequence

from transformer_cli.text.protocol import Tokenizer


class LettersFrom(Tokenizer):
    """A tokenizer of letters, numbered from a first one."""

    size = 26

    def __init__(self, first: str) -> None:
        self.first = first

    def encode(self, line: str) -> list[int]:
        return [ord(letter) - ord(self.first) for letter in line]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(number + ord(self.first)) for number in ids)

    def token(self, number: int) -> str:
        return str(number)

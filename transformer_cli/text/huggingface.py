"""Subwords by Hugging Face's tokenizers library, as a tokenizer.json describes them."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from transformer_cli.errors import TokenizerError
from transformer_cli.extras import imported
from transformer_cli.text.protocol import marked_starts
from transformer_cli.text.renumbering import Renumbering, Specials
from transformer_cli.text.trying import try_model
from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

# What specials are called in tokenizers in use, the likeliest first.
_UNK = ("<unk>", "[UNK]", "<UNK>")
_BOS = ("<s>", "[CLS]", "<bos>", "[BOS]", "<BOS>")
_EOS = ("</s>", "[SEP]", "<eos>", "[EOS]", "<EOS>", "<|endoftext|>")
_PAD = ("<pad>", "[PAD]", "<PAD>")


class HuggingFaceTokenizer:
    """Lines as ids of subwords.

    What its file says of templates ([CLS], [SEP]), of padding and of cutting lines off is not done.

    Args:
        data: the bytes of a tokenizer.json. They are tried in another process first.
        lowercase: whether lines are lowercased first; the file may have rules of its own.
        source: the file that ``data`` came from, for messages.
        specials: where it has its specials.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: the library cannot read or use the file.
    """

    def __init__(self, data: bytes, lowercase: bool, source: Path, specials: Specials) -> None:
        self._tokenizer = _open(data, source, "restore the file, or make the tokenizer again")
        ids = self._tokenizer.get_vocab(with_added_tokens=True).values()
        try:
            self._numbers = Renumbering(specials, ids)
        except ValueError as error:
            raise TokenizerError(f"{source}: {error}; restore the tokenizer.json") from error
        self._lowercase = lowercase
        self._source = source
        # Text that spells a special stays text.
        self._tokenizer.encode_special_tokens = True
        self._writing = _Writing.of(self._tokenizer)
        if self._tokenizer.decoder is None:
            self._tokenizer.decoder = self._writing.decoder()

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""
        return len(self._numbers)

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""
        with _explaining(self._source):
            text = line.lower() if self._lowercase else line
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return self._numbers.ours(encoding.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids on one line, without its specials.

        What the file has no decoder for is put together as its kind of subwords mostly is.
        """
        with _explaining(self._source):
            text = self._tokenizer.decode(self._numbers.theirs(ids))
        return str(text).replace("\n", " ")

    def token(self, number: int) -> str:
        """The subword of an id; '▁' stands for a space before it, as far as it can be told."""
        theirs = self._numbers.of(number)
        if theirs is None:
            return SPECIALS[number]
        # An id may be free in the file's own list.
        return self._writing.shown(self._tokenizer.id_to_token(theirs) or "")

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Of each id, whether a word begins there."""
        tokens = [self.token(number) for number in ids]
        starts = marked_starts(tokens)
        for place in range(1, len(ids)):
            if ids[place] == UNK_ID:
                starts[place] = self._writing.whole_words_unknown
            elif self._writing.ends_words(self._own_token(ids[place - 1])):
                starts[place] = True
        return starts

    def _own_token(self, number: int) -> str:
        theirs = self._numbers.of(number)
        return "" if theirs is None else self._tokenizer.id_to_token(theirs) or ""


def find_specials(data: bytes, source: Path) -> Specials:
    """Where a tokenizer.json has its specials, by what it says and by what they are mostly called.

    Args:
        data: its bytes. They are tried in another process first.
        source: the file that they came from, for messages.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: the library cannot read or use the file.
    """
    tokenizer = _open(data, source, "give a tokenizer.json as the tokenizers library writes it")
    model = json.loads(tokenizer.to_str())["model"]
    unknown = model.get("unk_token")
    if unknown is None and model.get("unk_id") is not None:
        unknown = model["vocab"][model["unk_id"]][0]
    ids = tokenizer.get_vocab(with_added_tokens=True)
    found: list[int | None] = []
    for names in ((unknown, *_UNK), _BOS, _EOS, _PAD):
        number = next((ids[name] for name in names if name in ids), None)
        found.append(None if number in found else number)
    unk, bos, eos, pad = found
    return Specials(unk=unk, bos=bos, eos=eos, pad=pad)


def tokenizers_library() -> ModuleType:
    """Hugging Face's tokenizers library.

    Raises:
        MissingExtraError: it is not installed.
    """
    # Lines are encoded one by one, and a process that forks after it had threads is warned.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return imported("tokenizers", "tokenizers", "tokenizer.kind wordpiece or huggingface")


def _open(data: bytes, source: Path, advice: str) -> Any:
    library = tokenizers_library()
    try_model("tokenizers", data, source, advice)
    with _explaining(source):
        tokenizer: Any = library.Tokenizer.from_buffer(data)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@contextmanager
def _explaining(source: Path) -> Iterator[None]:
    """Have whatever the library raises be one line about the file."""
    try:
        yield
    except BaseException as error:
        # What ends a thread in Rust is an exception that is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())[:200]
        raise TokenizerError(f"{source}: the tokenizers library fails with it ({reason})") from None


@dataclass(frozen=True)
class _Writing:
    """How a tokenizer's subwords tell where words begin.

    Attributes:
        whole_words_unknown: whether an unknown token stands for a whole word.
        marked: whether subwords have a '▁' where a space is.
        in_bytes: whether they are bytes written as characters, 'Ġ' being a space.
        prefix: what those begin with that go on with a word, as in '##'; empty: nothing.
        suffix: what those end with that end a word, as in '</w>'; empty: nothing.
    """

    whole_words_unknown: bool
    marked: bool = False
    in_bytes: bool = False
    prefix: str = ""
    suffix: str = ""

    @classmethod
    def of(cls, tokenizer: Any) -> "_Writing":
        """What a tokenizer's parts say."""
        said = json.loads(tokenizer.to_str())
        model = said["model"]
        kind = model.get("type")
        parts = json.dumps(
            [said.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")],
            ensure_ascii=False,
        )
        marked = "▁" in parts or kind == "Unigram"
        return cls(
            whole_words_unknown=kind in ("WordPiece", "WordLevel") and not marked,
            marked=marked,
            in_bytes='"ByteLevel"' in parts,
            prefix=model.get("continuing_subword_prefix") or "",
            suffix=model.get("end_of_word_suffix") or "",
        )

    def shown(self, token: str) -> str:
        """A token with a '▁' where a space is before it."""
        if self.in_bytes:
            text = str(tokenizers_library().decoders.ByteLevel().decode([token]))
            return token if "\ufffd" in text else text.replace(" ", "▁")
        if self.prefix and token.startswith(self.prefix):
            return token[len(self.prefix) :]
        if self.marked or self.suffix:
            return token.removesuffix(self.suffix)
        return f"▁{token}"

    def ends_words(self, token: str) -> bool:
        """Whether what comes after a token is another word, whatever it looks like."""
        return bool(self.suffix) and not self.marked and token.endswith(self.suffix)

    def decoder(self) -> Any:
        """A decoder for a file that has none; None: words with spaces between them."""
        decoders = tokenizers_library().decoders
        if self.in_bytes:
            return decoders.ByteLevel()
        if self.marked:
            return decoders.Metaspace()
        if self.suffix:
            return decoders.BPEDecoder(suffix=self.suffix)
        if self.prefix:
            return decoders.WordPiece(prefix=self.prefix)
        return None

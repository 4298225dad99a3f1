"""Tokenizers that use a Hugging Face tokenizer.json, made elsewhere or by this program."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from transformer_cli.base.errors import TokenizerError
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.tokenizers import trial
from transformer_cli.extensions.tokenizers.made_elsewhere import FilesManifest, IdMap, SpecialIds
from transformer_cli.text.model_check import check_model
from transformer_cli.text.protocol import SPECIALS, Tokenizer
from transformer_cli.text.tokenizer import Side

# Common names of special tokens, the most likely first.
_NAMES = {
    "unk": ("<unk>", "[UNK]", "<UNK>"),
    "bos": ("<s>", "[CLS]", "<bos>", "[BOS]", "<BOS>"),
    "eos": ("</s>", "[SEP]", "<eos>", "[EOS]", "<EOS>", "<|endoftext|>"),
    "pad": ("<pad>", "[PAD]", "<PAD>"),
}
# Seconds that the library may take for a line. Its regular expressions give up after ten million
# steps, but again at each character, and the number of steps depends on the text.
_LONGEST_CALL = 60.0
# Maximum characters, or ids, of a line that any file handles quickly, unless it has expressions
# with more than one choice.
_QUICK = 10_000
_CHOICES = "*+?{|"


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer that uses a tokenizer.json, which is first tried out in a child process.

    The file's templates ([CLS], [SEP]), padding and truncation are ignored. Its normalizer may
    lowercase text too. TokenizerError is raised if the library cannot read or use the file.
    """

    def __init__(self, data: bytes, lowercase: bool, source: Path, specials: SpecialIds) -> None:
        self._tokenizer = _open(data, source, "restore the file, or make the tokenizer again")
        ids = self._tokenizer.get_vocab(with_added_tokens=True).values()
        try:
            self._id_map = IdMap(specials, ids)
        except ValueError as error:
            raise TokenizerError(f"{source}: {error}; restore the tokenizer.json") from error
        self.size = len(self._id_map)
        self._lowercase = lowercase
        self._source = source
        # Text that spells a special token stays text.
        self._tokenizer.encode_special_tokens = True
        parts = json.loads(self._tokenizer.to_str())
        self._spelling = _Spelling(parts)
        self._may_backtrack = any(
            sum(map(expression.count, _CHOICES)) > 1 for expression in _expressions(parts)
        )
        # A file without a decoder gets the usual decoder for its kind of subwords.
        if self._tokenizer.decoder is None:
            self._tokenizer.decoder = self._spelling.make_decoder()

    def encode(self, line: str) -> list[int]:
        text = line.lower() if self._lowercase else line
        encode = partial(self._tokenizer.encode_batch, [text], add_special_tokens=False)
        return self._id_map.to_run(self._call(encode, len(text)).ids)

    def decode(self, ids: Sequence[int]) -> str:
        decode = partial(self._tokenizer.decode_batch, [self._id_map.to_model(ids)])
        return str(self._call(decode, len(ids))).replace("\n", " ")

    def token(self, number: int) -> str:
        model_id = self._id_map.model_id(number)
        if model_id is None:
            return SPECIALS[number]
        # A file may leave out ids.
        return self._spelling.display(self._tokenizer.id_to_token(model_id) or "")

    def _call(self, call: Callable[[], Any], length: int) -> Any:
        """Return the one result of the library's ``call``; limit its time if it may be slow."""
        is_quick = length <= _QUICK and not self._may_backtrack
        with _naming_source(self._source):
            (result,) = call() if is_quick else _call_within_time(call)
        return result


def _open(data: bytes, source: Path, advice: str) -> Any:
    # We encode line by line, and otherwise the library warns when a process forks.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    library = import_extra("tokenizers", "tokenizers", str(source))
    check_model(data, source, advice, "tokenizers", Path(trial.__file__))
    with _naming_source(source):
        tokenizer: Any = library.Tokenizer.from_buffer(data)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _call_within_time(call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns; raise TimeoutError after ``_LONGEST_CALL`` seconds."""
    # The library cannot be interrupted, but it runs its batches without the interpreter's lock. A
    # thread that is still running ends with the process.
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # including a panic
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return future.result(_LONGEST_CALL)
    except TimeoutError:
        raise TimeoutError(f"not done with a line after {_LONGEST_CALL:.0f} s") from None


def _expressions(part: Any) -> Iterator[str]:
    """Yield the regular expressions in a tokenizer.json, or in a part of one."""
    if isinstance(part, list):
        part = dict(enumerate(part))
    for key, value in part.items() if isinstance(part, dict) else ():
        if key == "Regex":
            yield str(value)
        elif key not in ("model", "added_tokens"):
            yield from _expressions(value)


@contextmanager
def _naming_source(source: Path) -> Iterator[None]:
    """Turn any error of the library into a TokenizerError, whose message names the file."""
    try:
        yield
    except BaseException as error:
        # A panic in Rust is a BaseException.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())[:200]
        raise TokenizerError(f"{source}: the tokenizers library cannot use it ({reason})") from None


class _Spelling:
    """How a tokenizer.json writes spaces and word ends in subwords, e.g. '▁' for a space."""

    def __init__(self, parts: dict[str, Any]) -> None:
        model = parts["model"]
        kind = model.get("type")
        rules = [parts.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")]
        written = json.dumps(rules, ensure_ascii=False)
        # Whether subwords have a '▁' for a space.
        self.marked = "▁" in written or kind == "Unigram"
        # Whether subwords are bytes written as characters, with 'Ġ' for a space.
        self.in_bytes = '"ByteLevel"' in written
        # The mark of subwords that continue a word, such as '##', and of those that end one, such
        # as '</w>'; may be empty.
        self.prefix: str = model.get("continuing_subword_prefix") or ""
        self.suffix: str = model.get("end_of_word_suffix") or ""

    def display(self, token: str) -> str:
        """Return a token as shown to users: with '▁' at its start if a space precedes it."""
        if self.in_bytes:
            from tokenizers.decoders import ByteLevel

            text = str(ByteLevel().decode([token]))
            return token if "\ufffd" in text else text.replace(" ", "▁")
        if self.prefix and token.startswith(self.prefix):
            return token[len(self.prefix) :]
        if self.marked or self.suffix:
            return token.removesuffix(self.suffix)
        return f"▁{token}"

    def make_decoder(self) -> Any:
        """Return a decoder for a file that has none; None means to join tokens with spaces."""
        from tokenizers import decoders

        if self.in_bytes:
            return decoders.ByteLevel()
        if self.marked:
            return decoders.Metaspace()
        if self.suffix:
            return decoders.BPEDecoder(suffix=self.suffix)
        if self.prefix:
            return decoders.WordPiece(prefix=self.prefix)
        return None


class HuggingFaceManifest(FilesManifest):
    """A run's manifest of Hugging Face tokenizer.json files that were made elsewhere and copied."""

    kind: Literal["huggingface"] = "huggingface"
    suffix = "tokenizer.json"

    def open(self, data: bytes, path: Path, side: Side) -> HuggingFaceTokenizer:
        return HuggingFaceTokenizer(data, self.lowercase, path, self.specials[side])

    @staticmethod
    def find_specials(model: bytes, source: Path) -> SpecialIds:
        """Return the ids of a file's special tokens, found by its settings or usual names."""
        tokenizer = _open(model, source, "give a tokenizer.json written by the tokenizers library")
        parts = json.loads(tokenizer.to_str())["model"]
        unknown = parts.get("unk_token")
        if unknown is None and parts.get("unk_id") is not None:
            unknown = parts["vocab"][parts["unk_id"]][0]
        ids = tokenizer.get_vocab(with_added_tokens=True)
        specials: dict[str, int | None] = {}
        for special, names in _NAMES.items():
            candidates = (unknown, *names) if special == "unk" else names
            number = next((ids[name] for name in candidates if name in ids), None)
            specials[special] = None if number in specials.values() else number
        return SpecialIds(**specials)

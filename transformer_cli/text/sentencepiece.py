"""Subwords by SentencePiece: models learned from the training text."""

import io
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self
from unicodedata import ucd_3_2_0 as unicode_3_2

from transformer_cli.base.errors import ConfigError, TokenizerError
from transformer_cli.base.messages import show_progress
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.text.model_check import check_model, mark_checked
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Lines, Tokenizer
from transformer_cli.text.tokenizer import Side, TokenizerManifest, TrainingText

# Part of what is learned, as sums of the unigram model depend on how work is split: never the
# machine's own number of cores.
_NUM_THREADS = 4
# In bytes; longer lines are skipped. SentencePiece's own limit, 4192, is a long paragraph.
_MAX_LINE_LENGTH = 1 << 16
_ERRORS_ONLY = 2
_LAST_COMPOSED = 0x2FA1D  # the last character that NFC changes
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. [^<]*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class SentencePieceTokenizer(Tokenizer):
    """Lines as ids of subwords, by the bytes of a model, tried in a child process first.

    Raises TokenizerError if SentencePiece cannot read or use the model, or its special tokens are
    wrong.
    """

    def __init__(self, model: bytes, lowercase: bool, source: Path) -> None:
        self._processor = open_model(model, source, "learn it again")
        self._lowercase = lowercase
        self.size = self._processor.get_piece_size()
        self._check_specials(source)

    def _check_specials(self, source: Path) -> None:
        first = tuple(self._processor.id_to_piece(list(range(min(self.size, len(SPECIALS))))))
        if first != SPECIALS:
            raise TokenizerError(
                f"{source}: starts with the pieces {first}, not {SPECIALS}; learn it again"
            )

    @property
    def sentencepiece_model(self) -> bytes:
        return bytes(self._processor.serialized_model_proto())

    def encode(self, line: str) -> list[int]:
        ids: list[int] = self._processor.encode(line.lower() if self._lowercase else line)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; an unknown character is '<unk>'."""
        # A model may spell a line end by its byte; the text must stay on one line.
        return self._decode(ids).replace("\n", " ")

    def _decode(self, ids: Sequence[int]) -> str:
        shown = [int(number) for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        return str(self._processor.decode(shown))

    def token(self, number: int) -> str:
        return str(self._processor.id_to_piece(number))


def open_model(model: bytes, source: Path, advice: str) -> Any:
    """Return SentencePiece's processor of a model, after trying it; see ``check_model``."""
    import sentencepiece

    check_model(model, source, advice)
    processor: Any = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise TokenizerError(f"{source}: not a SentencePiece model; {advice}") from error
    return processor


class Manifest(TokenizerManifest):
    """The manifest of SentencePiece models."""

    kind: Literal["sentencepiece"] = "sentencepiece"
    suffix = "model"

    def open(self, data: bytes, path: Path, side: Side) -> SentencePieceTokenizer:
        return SentencePieceTokenizer(data, self.lowercase, path)

    @classmethod
    def learn(cls, config: SentencePieceConfig, text: TrainingText, directory: Path) -> Self:
        sides = text.sides(config.joint)
        models = ((side, learn_model(config, lines, label)) for side, lines, label in sides)
        return cls.write(models, directory, config.lowercase, text.sha256)


def learn_model(config: SentencePieceConfig, lines: Lines, label: str) -> bytes:
    """Learn a model; the same lines and settings always give the same bytes.

    ``label`` is the text's name in messages, as in 'source text'. Raises ConfigError if
    ``tokenizer.vocab_size`` is too big or too small for this text.
    """
    import sentencepiece

    model = io.BytesIO()
    failures: list[BaseException] = []

    def read() -> Iterator[str]:
        try:
            for line in show_progress(lines, label):
                yield line.lower() if config.lowercase else line
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failures.append(error)  # the library turns it into one of its own
            raise

    with _normalization(config.normalization) as normalization:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=read(),
                model_writer=model,
                model_type=config.model_type,
                vocab_size=config.vocab_size,
                byte_fallback=config.byte_fallback,
                character_coverage=config.character_coverage,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                pad_id=PAD_ID,
                unk_piece=SPECIALS[UNK_ID],
                bos_piece=SPECIALS[BOS_ID],
                eos_piece=SPECIALS[EOS_ID],
                pad_piece=SPECIALS[PAD_ID],
                unk_surface=SPECIALS[UNK_ID],
                max_sentence_length=_MAX_LINE_LENGTH,
                num_threads=_NUM_THREADS,
                minloglevel=_ERRORS_ONLY,
                **normalization,
            )
        except (RuntimeError, SystemError) as error:
            if failures:
                raise failures[0] from None
            raise _explain(str(error), config.vocab_size, label) from error
    data = model.getvalue()
    if rules := normalization.get("normalization_rule_tsv"):
        data = _without_path(data, rules)
    mark_checked(data)
    return data


@contextmanager
def _normalization(name: str) -> Iterator[dict[str, str]]:
    """Yield the trainer's options for a normalization; ours has a file of rules."""
    if name != "nfc":
        yield {"normalization_rule_name": name}
        return
    with TemporaryDirectory(prefix="transformer-cli-") as directory:
        rules = Path(directory, "rules.tsv")
        rules.write_text(nfc_rules(), encoding="ascii", newline="")
        yield {"normalization_rule_tsv": str(rules)}


def nfc_rules() -> str:
    """Return the rules of ``tokenizer.normalization: nfc`` as SentencePiece reads them.

    Equal characters are spelled alike, white space is a space, and control characters are removed.
    Nothing else changes. The rules come from Unicode 3.2, which all versions of Python have, so
    that models do not depend on Python's version; later versions added characters to NFC only for
    a few ancient scripts.
    """
    rules = dict(_compositions())
    for character in map(chr, range(1, 0x3001)):
        if character.isspace() or character == "▁":  # SentencePiece's own sign for a space
            rules[character] = " "
        elif unicodedata.category(character) == "Cc":
            rules[character] = ""
    rules["\ufeff"] = ""  # a byte order mark, from files that were joined
    return "".join(f"{_hex(found)}\t{_hex(norm)}\n" for found, norm in sorted(rules.items()))


def _compositions() -> Iterator[tuple[str, str]]:
    """Yield each spelling that NFC changes, with what it becomes."""
    for character in map(chr, range(_LAST_COMPOSED + 1)):
        decomposed = unicode_3_2.normalize("NFD", character)
        if decomposed == character:
            continue
        norm = unicode_3_2.normalize("NFC", character)
        # Some of the marks may be composed already, and their order may be another.
        for marks in permutations(decomposed[1:]):
            spelled = decomposed[0] + "".join(marks)
            if unicode_3_2.normalize("NFC", spelled) == norm:
                for end in range(len(spelled) + 1):
                    found = unicode_3_2.normalize("NFC", spelled[:end]) + spelled[end:]
                    if found != norm:
                        yield found, norm


def _hex(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _without_path(model: bytes, path: str) -> bytes:
    """Return a model without the path of its rules, so that equal models have equal bytes."""
    field = b"\x32" + _varint(len(path.encode())) + path.encode()
    place = 0
    while True:  # over the model's fields, of which 3 is the normalizer's
        tag, length, start = model[place], 0, place + 1
        for shift in range(0, 35, 7):
            length |= (model[start] & 0x7F) << shift
            start += 1
            if model[start - 1] < 0x80:
                break
        if tag == 0x1A:
            rest = model[start : start + length].replace(field, b"")
            return model[: place + 1] + _varint(len(rest)) + rest + model[start + length :]
        place = start + length


def _varint(number: int) -> bytes:
    """Return a number as protocol buffers have it."""
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _explain(reason: str, vocab_size: int, label: str) -> ConfigError | TokenizerError:
    """Return the error of why SentencePiece cannot learn, with a size that is possible."""
    if limit := _TOO_MANY.search(reason):
        return ConfigError(
            f"tokenizer.vocab_size: the {label} is too little for {vocab_size} subwords; "
            f"set at most {limit[1]}"
        )
    if limit := _TOO_FEW.search(reason):
        return ConfigError(
            f"tokenizer.vocab_size: {vocab_size} entries are too few for the specials, bytes and "
            f"characters of the {label}; set at least {limit[1]}, or a lower "
            "tokenizer.character_coverage"
        )
    why = " ".join(reason.split())
    return TokenizerError(f"tokenizer: SentencePiece cannot learn from the {label} ({why})")

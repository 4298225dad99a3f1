"""Subword tokenizers that use SentencePiece models, learned from the training text."""

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

# The number of threads affects the unigram model, because each thread sums up its own numbers. So
# this number is the same on every machine.
_NUM_THREADS = 4
# In bytes; longer lines are skipped. SentencePiece's default, 4192, is only a long paragraph.
_MAX_LINE_LENGTH = 1 << 16
_ERRORS_ONLY = 2
_LAST_COMPOSED = 0x2FA1D  # the last character that NFC changes
_NO_TEXT = "all_chars_count"
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. [^<]*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class SentencePieceTokenizer(Tokenizer):
    """A tokenizer that encodes lines as ids of subwords, using a SentencePiece model.

    A child process tests the model first. TokenizerError is raised if SentencePiece cannot read or
    use the model, or if the model's special tokens are wrong.
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
                f"{source}: the first pieces are {first}, not {SPECIALS}; learn it again"
            )

    @property
    def sentencepiece_model(self) -> bytes:
        return bytes(self._processor.serialized_model_proto())

    def encode(self, line: str) -> list[int]:
        ids: list[int] = self._processor.encode(line.lower() if self._lowercase else line)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, with '<unk>' for each unknown character."""
        # A model may write the byte of a line end, but the text must stay on one line.
        return self._decode(ids).replace("\n", " ")

    def _decode(self, ids: Sequence[int]) -> str:
        shown = [int(number) for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        return str(self._processor.decode(shown))

    def token(self, number: int) -> str:
        return str(self._processor.id_to_piece(number))


def open_model(model: bytes, source: Path, advice: str) -> Any:
    """Test a model and return a SentencePiece processor that uses it; see ``check_model``."""
    import sentencepiece

    check_model(model, source, advice)
    processor: Any = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError) as error:  # since 0.2.2 it may be a ValueError
        raise TokenizerError(f"{source}: not a SentencePiece model; {advice}") from error
    return processor


class SentencePieceManifest(TokenizerManifest):
    """The content of tokenizer.json for SentencePiece models."""

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
    """Learn a model; its bytes depend on the lines, the settings and SentencePiece's version.

    ``label`` is what messages call the lines, for example 'source text'.

    Raises:
        ConfigError: ``tokenizer.vocab_size`` is too big or too small for this text.
        TokenizerError: SentencePiece cannot learn from this text for another reason.
    """
    import sentencepiece

    model = io.BytesIO()
    failures: list[BaseException] = []

    def read() -> Iterator[str]:
        try:
            for line in show_progress(lines, label):
                yield line.lower() if config.lowercase else line
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failures.append(error)  # the library turns it into an error of its own
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
        except (RuntimeError, SystemError, ValueError) as error:
            if failures:
                raise failures[0] from None
            raise _explain(str(error), config.vocab_size, label) from error
    data = model.getvalue()
    if rules := normalization.get("normalization_rule_tsv"):
        data = _without_path(data, rules)
    mark_checked(data)
    return data


@contextmanager
def _normalization(name: str) -> Iterator[dict[str, Any]]:
    """Yield SentencePiece's training options for a normalization; 'nfc' needs a file of rules."""
    if name != "nfc":
        yield {"normalization_rule_name": name}
        return
    with TemporaryDirectory(prefix="transformer-cli-") as directory:
        rules = Path(directory, "rules.tsv")
        rules.write_text(nfc_rules(), encoding="ascii", newline="")
        yield {"normalization_rule_tsv": str(rules)}


def nfc_rules() -> str:
    """Return the rules of ``tokenizer.normalization: nfc`` in SentencePiece's format.

    The rules replace equivalent spellings of a character with one of them, replace each white-space
    character with a space, and remove control characters. They use Unicode 3.2, which all versions
    of Python have, so that models do not depend on the version of Python. Later versions of Unicode
    added only characters of a few ancient scripts to NFC.
    """
    rules = dict(_compositions())
    for character in map(chr, range(1, 0x3001)):
        if character.isspace() or character == "▁":  # SentencePiece's sign for a space
            rules[character] = " "
        elif unicodedata.category(character) == "Cc":
            rules[character] = ""
    del rules[" "]  # from 0.2.2 on, SentencePiece refuses rules that change nothing
    rules["\ufeff"] = ""  # byte order marks, which joined files may have in the middle
    return "".join(f"{_hex(found)}\t{_hex(norm)}\n" for found, norm in sorted(rules.items()))


def _compositions() -> Iterator[tuple[str, str]]:
    """Yield each spelling that NFC changes, paired with what NFC changes it to."""
    for character in map(chr, range(_LAST_COMPOSED + 1)):
        decomposed = unicode_3_2.normalize("NFD", character)
        if decomposed == character:
            continue
        norm = unicode_3_2.normalize("NFC", character)
        # Marks may be in another order, and some may be composed already.
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
    """Return a model without the path of its rules file, so that equal models have equal bytes."""
    field = b"\x32" + _varint(len(path.encode())) + path.encode()
    place = 0
    while True:  # for each field of the model, up to field 3, the normalizer
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
    """Return a number as a varint, the integer format of protocol buffers."""
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _explain(reason: str, vocab_size: int, label: str) -> ConfigError | TokenizerError:
    """Return an error that says why learning failed and, if known, what vocabulary size works."""
    if _NO_TEXT in reason:
        return ConfigError(
            f"data: the {label} has no text that SentencePiece can use; give text to learn from"
        )
    if limit := _TOO_MANY.search(reason):
        return ConfigError(
            f"tokenizer.vocab_size: the {label} is too short for {vocab_size} subwords; "
            f"set at most {limit[1]}"
        )
    if limit := _TOO_FEW.search(reason):
        return ConfigError(
            f"tokenizer.vocab_size: {vocab_size} entries are too few for the special tokens, bytes "
            f"and characters of the {label}; set at least {limit[1]}, or lower "
            "tokenizer.character_coverage"
        )
    why = " ".join(reason.split())
    return TokenizerError(f"tokenizer: SentencePiece cannot learn from the {label} ({why})")

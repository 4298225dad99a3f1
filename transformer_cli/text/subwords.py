"""Subwords by SentencePiece, learned from training text."""

import hashlib
import io
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import SentencePieceTokenizer
from transformer_cli.errors import TokenizerError
from transformer_cli.text import trial
from transformer_cli.text.lines import Lines, Progress
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID

# Part of what is learned, as the unigram sums depend on how they were cut up: never the machine's
# own number of cores.
_NUM_THREADS = 4
# Longer lines are not learned from, in bytes. SentencePiece's own limit, 4192, is a long paragraph.
_LONGEST_LINE = 1 << 16
_ERRORS_ONLY = 2
# SentencePiece holds the lines that it learns from. More of them than this teach it nothing new.
_MOST_LINES = 1_000_000
# Seconds for what takes a tenth of one.
_TRIAL_PATIENCE = 60.0
# The SHA-256 of the models that this process learned or tried; see _try.
_trusted: set[bytes] = set()
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. .*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class SubwordTokenizer:
    """Lines as ids of subwords.

    Args:
        model: the bytes of a SentencePiece model that ``learn_model`` made. SentencePiece trusts
            them, so those that this process has not learned are first tried in another.
        lowercase: whether lines are lowercased first.
        source: the file that ``model`` came from, for messages.

    Raises:
        TokenizerError: SentencePiece cannot read or use the model, or its specials are not ours.
    """

    def __init__(self, model: bytes, lowercase: bool, source: Path) -> None:
        import sentencepiece

        _try(model, source)
        self._processor: Any = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise TokenizerError(f"{source}: not a SentencePiece model; learn it again") from error
        pieces = tuple(self._processor.id_to_piece(list(range(min(len(SPECIALS), self.size)))))
        if pieces != SPECIALS:
            raise TokenizerError(
                f"{source}: starts with the pieces {pieces}, not {SPECIALS}; learn it again"
            )
        self._lowercase = lowercase

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""
        return int(self._processor.get_piece_size())

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""
        ids: list[int] = self._processor.encode(line.lower() if self._lowercase else line)
        return ids

    def sample(self, sentences: Sequence[list[int]], rate: float, seed: int) -> list[list[int]]:
        """Cut sentences into other subwords by BPE-dropout (Provilkov et al. 2020).

        Args:
            sentences: the ids that ``encode`` gave.
            rate: probability that a merge is left out.
            seed: decides the cuts, from 0 to 2^32 - 1.

        Returns:
            The ids of the same text in, mostly, shorter subwords.
        """
        import sentencepiece

        def cut() -> list[list[int]]:
            return [
                self._processor.encode(line, enable_sampling=True, alpha=rate, nbest_size=-1)
                for line in self._processor.decode(list(sentences))
            ]

        # SentencePiece has a generator a thread, and seeds it when the thread first draws from it.
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(max_workers=1) as new_thread:
            return new_thread.submit(cut).result()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without BOS, EOS and PAD; an unknown character is written '<unk>'."""
        shown = [int(number) for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        # A model may spell a line end by its byte, and what it says is to stay one line.
        return str(self._processor.decode(shown)).replace("\n", " ")

    def token(self, number: int) -> str:
        """The subword of an id; '▁' stands for a space before it."""
        return str(self._processor.id_to_piece(number))


def learn_model(
    config: SentencePieceTokenizer, lines: Lines, label: str, progress: Progress
) -> bytes:
    """Learn subwords; the same lines and settings always give the same bytes.

    Args:
        config: the kind of subwords and how many.
        lines: training text. Of very many lines a million are taken, evenly at random.
        label: the text's name in messages, as in 'source text'.
        progress: wraps the lines, given the label, as tqdm would.

    Raises:
        TokenizerError: ``tokenizer.vocab_size`` is too big or too small for this text.
    """
    import sentencepiece

    model = io.BytesIO()
    text = _Text(progress(lines, label), len(lines), config.lowercase)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
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
            max_sentence_length=_LONGEST_LINE,
            num_threads=_NUM_THREADS,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if text.failure is not None:
            raise text.failure from None
        raise TokenizerError(_explain(str(error), config.vocab_size, label)) from error
    _trusted.add(hashlib.sha256(model.getvalue()).digest())
    return model.getvalue()


def _try(model: bytes, source: Path) -> None:
    """Use a model in a process of its own, once for each model.

    Raises:
        TokenizerError: it cannot be used.
    """
    digest = hashlib.sha256(model).digest()
    if digest in _trusted:
        return
    try:
        # -P: no module of the current directory or of the script's takes another's place.
        tried = subprocess.run(
            [sys.executable, "-P", trial.__file__],
            input=model,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise TokenizerError(
            f"{source}: SentencePiece does not come to an end with this model; learn it again"
        ) from None
    if tried.returncode < 0:
        raise TokenizerError(
            f"{source}: SentencePiece dies of this model (signal {-tried.returncode}); "
            "learn it again"
        )
    if tried.returncode > 0:
        reason = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TokenizerError(f"{source}: not a SentencePiece model ({reason}); learn it again")
    _trusted.add(digest)


class _Text:
    """What SentencePiece is shown, read once.

    Args:
        lines: the training text.
        count: the number of its lines.
        lowercase: whether they are lowercased.
    """

    def __init__(self, lines: Iterable[str], count: int, lowercase: bool) -> None:
        self._lines = lines if count <= _MOST_LINES else _sample(lines, count, _MOST_LINES)
        self._lowercase = lowercase
        self.failure: BaseException | None = None
        """What ended the reading, if anything: SentencePiece makes its own error of it."""

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                yield line.lower() if self._lowercase else line
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self.failure = error
            raise


def _sample(lines: Iterable[str], count: int, size: int) -> Iterator[str]:
    """Choose ``size`` of ``count`` lines, the same ones every time, all equally likely.

    This is selection sampling: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
    SentencePiece's own sampling depends on the process that it happens in.
    """
    draws = random.Random(1)
    wanted = size
    for seen, line in enumerate(lines):
        if draws.random() * (count - seen) < wanted:
            wanted -= 1
            yield line


def _explain(reason: str, vocab_size: int, label: str) -> str:
    """One line about why SentencePiece cannot learn, with what would be possible."""
    if found := _TOO_MANY.search(reason):
        return (
            f"tokenizer.vocab_size: the {label} is too little for {vocab_size} subwords; "
            f"set at most {found[1]}"
        )
    if found := _TOO_FEW.search(reason):
        return (
            f"tokenizer.vocab_size: {vocab_size} entries are too few for the specials, bytes and "
            f"characters of the {label}; set at least {found[1]}, or a lower "
            "tokenizer.character_coverage"
        )
    return f"tokenizer: SentencePiece cannot learn from the {label} ({' '.join(reason.split())})"

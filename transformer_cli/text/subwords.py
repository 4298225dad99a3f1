"""Subwords by SentencePiece, learned from training text."""

import io
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import SentencePieceConfig
from transformer_cli.errors import TokenizerError
from transformer_cli.text.lines import LearningText, Lines, Progress
from transformer_cli.text.protocol import marked_starts
from transformer_cli.text.renumbering import Renumbering, Specials
from transformer_cli.text.trying import trust, try_model
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID

# Part of what is learned, as the unigram sums depend on how they were cut up: never the machine's
# own number of cores.
_NUM_THREADS = 4
# Longer lines are not learned from, in bytes. SentencePiece's own limit, 4192, is a long paragraph.
_LONGEST_LINE = 1 << 16
_ERRORS_ONLY = 2
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. .*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class SentencePieceTokenizer:
    """Lines as ids of subwords.

    Args:
        model: the bytes of a SentencePiece model. SentencePiece trusts them, so those that this
            process has not learned are first tried in another.
        lowercase: whether lines are lowercased first.
        source: the file that ``model`` came from, for messages.
        specials: where a model made elsewhere has its specials; None: where ``learn_model`` puts
            them, and its ids are ours.

    Raises:
        TokenizerError: SentencePiece cannot read or use the model, or its specials are not ours.
    """

    def __init__(
        self, model: bytes, lowercase: bool, source: Path, specials: Specials | None = None
    ) -> None:
        self._processor = open_model(model, source, "learn it again")
        pieces = range(self._processor.get_piece_size())
        self._numbers: Renumbering | None = None
        if specials is not None:
            try:
                self._numbers = Renumbering(specials, pieces)
            except ValueError as error:
                raise TokenizerError(f"{source}: {error}; restore tokenizer.json") from error
        else:
            first = tuple(self._processor.id_to_piece(list(pieces[: len(SPECIALS)])))
            if first != SPECIALS:
                raise TokenizerError(
                    f"{source}: starts with the pieces {first}, not {SPECIALS}; learn it again"
                )
        self._lowercase = lowercase

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""
        return len(self._numbers) if self._numbers else int(self._processor.get_piece_size())

    @property
    def has_merges(self) -> bool:
        """Whether ``sample`` leaves out merges: the model is one of byte pair encoding."""
        # The library does not say what a model is, only what it can do: of many ways to cut a text
        # unigrams can give the best, byte pairs one at random, words and characters none.
        return _can(self._processor.encode, enable_sampling=True, alpha=0.5, nbest_size=-1) and (
            not _can(self._processor.nbest_encode, nbest_size=2)
        )

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""
        ids: list[int] = self._processor.encode(line.lower() if self._lowercase else line)
        return self._numbers.ours(ids) if self._numbers else ids

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
                for line in self._processor.decode(whole)
            ]

        numbers = self._numbers
        whole = [numbers.theirs(ids) for ids in sentences] if numbers else list(sentences)

        # SentencePiece has a generator a thread, and seeds it when the thread first draws from it.
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(max_workers=1) as new_thread:
            sampled = new_thread.submit(cut).result()
        return [numbers.ours(ids) for ids in sampled] if numbers else sampled

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without BOS, EOS and PAD; an unknown character is written '<unk>'.

        A model made elsewhere has its own sign for it.
        """
        if self._numbers:
            shown = self._numbers.theirs(ids)
        else:
            shown = [int(number) for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        # A model may spell a line end by its byte, and what it says is to stay one line.
        return str(self._processor.decode(shown)).replace("\n", " ")

    def token(self, number: int) -> str:
        """The subword of an id; '▁' stands for a space before it."""
        theirs = self._numbers.of(number) if self._numbers else number
        return SPECIALS[number] if theirs is None else str(self._processor.id_to_piece(theirs))

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Of each id, whether a word begins there."""
        return marked_starts([self.token(number) for number in ids])


def open_model(model: bytes, source: Path, advice: str) -> Any:
    """SentencePiece's processor of a model, which is tried first.

    Args:
        model: its bytes.
        source: the file that they came from, for messages.
        advice: what to do if it is no good, as messages end.

    Raises:
        TokenizerError: SentencePiece cannot read or use it.
    """
    import sentencepiece

    try_model("sentencepiece", model, source, advice)
    processor: Any = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise TokenizerError(f"{source}: not a SentencePiece model; {advice}") from error
    return processor


def find_specials(processor: Any) -> Specials:
    """Where a model has its specials; of two in one place the first counts."""
    found: list[int | None] = []
    for number in (
        processor.unk_id(),
        processor.bos_id(),
        processor.eos_id(),
        processor.pad_id(),
    ):
        found.append(None if number < 0 or number in found else number)
    unk, bos, eos, pad = found
    return Specials(unk=unk, bos=bos, eos=eos, pad=pad)


def _can(way: Callable[..., object], **options: object) -> bool:
    # Some versions of the library raise an error, others give nothing.
    try:
        return bool(way("a", **options))
    except RuntimeError:
        return False


def learn_model(config: SentencePieceConfig, lines: Lines, label: str, progress: Progress) -> bytes:
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
    text = LearningText(progress(lines, label), len(lines), config.lowercase)
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
    except (RuntimeError, SystemError) as error:
        if text.failure is not None:
            raise text.failure from None
        raise TokenizerError(_explain(str(error), config.vocab_size, label)) from error
    trust(model.getvalue())
    return model.getvalue()


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

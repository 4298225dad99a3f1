"""What all contestants train: one model, on one set of token ids of Multi30k, German to English."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.environments import ROOT, WORKSHOP
from transformer_cli.base.writing import whole_directory
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.data.corpus import ParallelText, StreamedText, TextStats
from transformer_cli.data.kinds import open_training_text
from transformer_cli.data.store import EncodedText, TokenArray, encode_pairs
from transformer_cli.text.protocol import SPECIALS
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers
from transformer_cli.training.preparation import Texts, read_val

DATA = WORKSHOP / "data"
ONE_READING = ("training.rdrop_alpha=0", "training.ema_decay=null")
"""Changes after which an update is what other programs do in one, whatever a config asks for."""
_SETTINGS = (
    *ONE_READING,
    "training.batch_tokens=4096",
    "training.schedule={kind: noam, factor: 2, warmup: 400}",
    # As JoeyNMT has it, which knows one rate for everything.
    "model.attention_dropout=0.3",
    "model.activation_dropout=0.3",
)


def settings(changes: Sequence[str] = ()) -> Config:
    """The experiment, with further settings changed.

    Args:
        changes: ``KEY=VALUE`` each, as ``--set`` takes them.
    """
    config = ROOT / "configs" / "multi30k_de_en_bpe.yaml"
    return load_config(config, [*_SETTINGS, *changes])


def vocab_size(config: Config) -> int:
    """Entries of the one vocabulary, the four specials included."""
    assert isinstance(config.tokenizer, SentencePieceConfig)
    return config.tokenizer.vocab_size


def read_texts(config: Config, known: TextStats | None = None) -> Texts:
    """Read the texts of an experiment without checks; training text as in ``known`` is not read."""
    train = StreamedText.of(open_training_text(config.data), known)
    return read_val(config.data, train)


def prepare_data() -> None:
    """Learn the subwords and write both splits as numbers, unless that is done.

    ``SPLIT.LANGUAGE`` has a sentence a line, its token ids with blanks between; vocabulary.txt
    names them for programs that want words: JoeyNMT's four specials, then the other ids.
    """
    if DATA.is_dir():
        return
    WORKSHOP.mkdir(exist_ok=True)
    config = settings()
    texts = read_texts(config)
    train = ParallelText(list(texts.train.src), list(texts.train.tgt))
    text_sha256 = texts.train.stats.text_sha256
    with whole_directory(DATA) as directory:
        languages = (config.data.src_lang, config.data.tgt_lang)
        tokenizers = learn_tokenizers(
            config.tokenizer,
            TrainingText(*languages, train.src, train.tgt, text_sha256),
            directory,
        )
        for split, text in (("train", train), ("val", texts.val)):
            encoded = encode_pairs(text.pairs(), tokenizers)
            for language, side in zip(languages, (encoded.src, encoded.tgt), strict=True):
                lines = (" ".join(map(str, side[index])) + "\n" for index in range(len(side)))
                (directory / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
        names = ["<unk>", "<pad>", "<s>", "</s>", *range(len(SPECIALS), tokenizers.src.size)]
        vocabulary = "".join(f"{name}\n" for name in names)
        (directory / "vocabulary.txt").write_text(vocabulary, encoding="utf-8")


def read_ids(split: str) -> EncodedText:
    """The token ids of ``train`` or ``val``, without end marks."""
    data = settings().data
    src, tgt = (DATA / f"{split}.{language}" for language in (data.src_lang, data.tgt_lang))
    return EncodedText(_read_side(src), _read_side(tgt))


def _read_side(path: Path) -> TokenArray:
    with path.open(encoding="utf-8") as lines:
        return TokenArray.from_sentences([int(number) for number in line.split()] for line in lines)

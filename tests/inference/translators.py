"""A translator with random weights, whose lines are ids: each source has another output."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig, TrainingConfig
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.inference.engine import Hypothesis, SearchOptions
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import TextTranslator, ignore
from transformer_cli.model.transformer import DecoderState, Transformer
from transformer_cli.text.protocol import EOS_ID, PAD_ID, EncodedSource, Tokenizer, Tokenizers
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer

SIZE = 14
MAX_POSITIONS = 12


@dataclass(frozen=True)
class NumberTokenizer(Tokenizer):
    """Lines are ids already: the specials would be seen in the output."""

    size: int = SIZE

    def encode(self, line: str) -> list[int]:
        return [int(word) for word in line.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token(self, number: int) -> str:
        return str(number)


class CountingTransformer(Transformer):
    """Remembers how many sentences are searched for a translation, batch by batch."""

    def __init__(self, *of_transformer: Any) -> None:
        super().__init__(*of_transformer)
        self.batches: list[int] = []

    def init_state(self, src: Tensor, beam_size: int = 1) -> DecoderState:
        self.batches.append(len(src))
        return super().init_state(src, beam_size)


def random_translator(
    favoured: Sequence[int] = (),
    end_bias: float = 0.0,
    positions: Any = "sinusoidal",
    size: int = SIZE,
) -> TorchTranslator:
    """A translator that writes something else for each source.

    Args:
        favoured: ids that the model would write above all others.
        end_bias: added to the end mark's logit.
        positions: kind of position encoding.
        size: entries of both vocabularies.
    """
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=WordsConfig(kind="words"),
        model=ModelConfig(
            d_model=16,
            num_heads=2,
            d_ff=24,
            num_encoder_layers=1,
            num_decoder_layers=1,
            tying="none",
            positions=positions,
            max_positions=MAX_POSITIONS,
        ),
        training=TrainingConfig(max_length=MAX_POSITIONS - 1),
    )
    model = CountingTransformer(config.model, size, size, PAD_ID)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.5)
        model.output.bias[EOS_ID] += end_bias
        model.output.bias[list(favoured)] += 50.0
    tokenizers = Tokenizers(NumberTokenizer(), NumberTokenizer(), letterless=True)
    engine = TorchEngine(model.eval(), torch.float32)
    return TextTranslator(engine, tokenizers, config, DecodingConfig())


def words_translator() -> TorchTranslator:
    """A translator of lines of the words 'a' to 'j', the first of which has the id 4."""
    words = WordsTokenizer(SpacyWords("xx", "de", lowercase=False), Vocabulary("abcdefghij"))
    translator = random_translator(size=words.size)
    return replace(translator, tokenizers=Tokenizers(words, words)).with_search(max_length=5)


class ByBeam:
    """Finds one hypothesis greedily, and others with a beam."""

    def __init__(self, greedy: list[int], beam: list[list[int]]) -> None:
        self.found = {False: [greedy], True: beam}
        self.asked: list[tuple[int, int]] = []

    def search(
        self,
        sources: Sequence[list[int]],
        limits: object,
        options: SearchOptions,
        *others: object,
    ) -> list[list[Hypothesis]]:
        self.asked.append((len(sources), options.decoding.beam_size))
        found = self.found[options.decoding.beam_size > 1]
        return [[Hypothesis(ids, -1.0 - rank) for rank, ids in enumerate(found)] for _ in sources]


def searched(translator: TorchTranslator) -> int:
    assert isinstance(translator.engine.model, CountingTransformer)
    return sum(translator.engine.model.batches)


def numbers(count: int) -> str:
    return " ".join(["5"] * count)


LINES = ["5 6 7", "9", "13 4 4 8 10", "6 6", "12 11 10 9 8 7 6", "5", "8 13"]


def translate_ids(
    translator: TorchTranslator, sources: Sequence[list[int]], progress: Any = ignore
) -> list[list[int]]:
    """Return the best translation of each source, empty for an empty one."""
    found = search_ids(translator, sources, progress)
    return [hypotheses[0].ids if hypotheses else [] for hypotheses in found]


def search_ids(
    translator: TorchTranslator, sources: Sequence[list[int]], progress: Any = ignore
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each source, best first."""
    lines = [EncodedLine("", EncodedSource("", []), [ids]) for ids in sources]
    return translator.search_pieces([(line, 0) for line in lines], progress=progress)


def translate_stream(
    translator: Any, lines: Iterable[str], chunk_lines: int = 1024, **options: Any
) -> Iterator[list[Translation]]:
    """Yield the translations of each line."""
    rest = iter(lines)
    chunks = iter(lambda: [*islice(rest, chunk_lines)], [])
    for found in translator.translate_chunks(chunks, **options):
        yield from found

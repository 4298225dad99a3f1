"""Choices of the command line that are no part of an experiment, and metrics. Light to import."""

from dataclasses import dataclass
from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
PrecisionName = Literal["auto", "float32", "bfloat16"]
DecodingErrors = Literal["strict", "replace"]
# Of a model that only translates.
SearchPrecisionName = Literal["auto", "float32", "bfloat16", "int8"]
Quantization = Literal[
    "float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_bfloat16"
]

LONGEST_SOURCE = 1024
"""Most tokens of a line that is translated as one: attention's cost grows with their square."""
HIGHEST_PENALTY = 100.0
"""Highest length penalty, far above any use: 1 compares means over tokens, nearly."""
LARGEST_BEAM = 1000
"""Memory grows with the beam. A line of 1,024 tokens with this one takes gigabytes already."""
MOST_BATCH_TOKENS = 2**20
"""Source tokens that are searched at once: what they need has to fit into memory."""
MOST_THREADS = 4096
"""CPU threads that may be asked for. Of a billion, what makes them ends the whole process."""

# --- metrics of translations ----------------------------------------------------------------------

DEFAULT_TOKENIZER = "13a"
TokenizerName = Literal["none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]  # of BLEU
# What a best checkpoint may be chosen by, as settings name it, and as it is recorded: by lowercased
# BLEU where translations are lowercased. evaluation/best_checkpoint.py chooses.
SelectName = Literal["bleu", "chrf", "loss"]
RankName = Literal["bleu", "bleu_lc", "chrf", "loss"]


@dataclass(frozen=True)
class Metric:
    """A metric of a model."""

    name: str  # its key in records and reports
    label: str  # what people call it, in tables and charts
    is_of_text: bool = True  # or else of the model's probabilities
    short: str = ""  # its label where BLEU stands before it
    higher_is_better: bool = True
    needs_case: bool = False  # it says nothing new of a script without large and small letters
    is_first: bool = False  # logs show it at each validation, and compare tests its differences
    is_thorough: bool = False  # only evaluate and report measure it, as it takes seconds

    def rank(self, score: float) -> float:
        """Return a number that is the higher, the better."""
        return score if self.higher_is_better else -score


METRICS = {
    metric.name: metric
    for metric in (
        # Post 2018.
        Metric("bleu", "BLEU", is_first=True),
        Metric("bleu_lc", "BLEU lowercased", short="lowercased", needs_case=True, is_first=True),
        # Popović 2015.
        Metric("chrf", "chrF"),
        # Snover et al. 2006: edits to a hundred reference words.
        Metric("ter", "TER", higher_is_better=False, is_thorough=True),
        Metric("loss", "loss", is_of_text=False, higher_is_better=False),
    )
}
"""By their names, which all that scores, compares or shows reads."""

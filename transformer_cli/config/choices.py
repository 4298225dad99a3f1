"""The choices and limits of options, and the metrics; this module is quick to import."""

from dataclasses import dataclass
from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
PrecisionName = Literal["auto", "float32", "bfloat16"]
DecodingErrors = Literal["strict", "replace"]
# For translating only.
SearchPrecisionName = Literal["auto", "float32", "bfloat16", "int8"]
Quantization = Literal[
    "float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_bfloat16"
]

LONGEST_SOURCE = 1024
"""Maximum tokens in a line that is translated whole; attention's cost grows with their square."""
HIGHEST_PENALTY = 100.0
"""Maximum length penalty, far above useful ones; 1 already almost ranks by mean log-probability."""
LARGEST_BEAM = 1000
"""Maximum beam size. Memory grows with it: at this size, a line of 1,024 tokens takes gigabytes."""
MOST_BATCH_TOKENS = 2**20
"""Maximum source tokens that are translated at once; the search for them must fit in memory."""
MOST_THREADS = 4096
"""Maximum CPU threads. With a billion, the library that starts them aborts the whole process."""

DEFAULT_TOKENIZER = "13a"
TokenizerName = Literal["none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]  # for BLEU
# The scores that can choose the best checkpoint: names in settings, and in records. Records name
# lowercased BLEU if translations are lowercased. See evaluation/best_checkpoint.py.
SelectName = Literal["bleu", "chrf", "loss"]
RankName = Literal["bleu", "bleu_lc", "chrf", "loss"]


@dataclass(frozen=True)
class Metric:
    """A metric by which models are compared, e.g. BLEU, and how logs and reports show it."""

    name: str  # its key in records and reports
    label: str  # its name in tables and charts
    is_of_text: bool = True  # it scores translations; otherwise, the model's probabilities
    short: str = ""  # its label after BLEU
    higher_is_better: bool = True
    needs_case: bool = False  # it adds nothing for a script without capital letters
    is_first: bool = False  # logs show it at each validation, and compare tests differences in it
    is_thorough: bool = False  # only evaluate and report measure it, as it takes seconds

    def rank(self, score: float) -> float:
        """Return a number that is higher for a better score."""
        return score if self.higher_is_better else -score


METRICS = {
    metric.name: metric
    for metric in (
        # Post 2018.
        Metric("bleu", "BLEU", is_first=True),
        Metric("bleu_lc", "BLEU lowercased", short="lowercased", needs_case=True, is_first=True),
        # Popović 2015.
        Metric("chrf", "chrF"),
        # Snover et al. 2006: edits per hundred reference words.
        Metric("ter", "TER", higher_is_better=False, is_thorough=True),
        Metric("loss", "loss", is_of_text=False, higher_is_better=False),
    )
}
"""All metrics, keyed by name, for all code that computes, compares or shows scores."""

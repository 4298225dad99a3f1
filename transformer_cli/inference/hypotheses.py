"""How to search, and what is found; light to import."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        bos_id: what every output starts from; not part of it.
        eos_id: what ends an output; not part of it.
        banned_ids: tokens that are never written.
        beam_size: hypotheses kept a sentence; 1 is greedy search.
        length_penalty: alpha of Wu et al. 2016, equation 14; 0 compares plain log-probabilities.
        sample_seed: draw each token from the model's distribution, with a beam of 1; None: search.
    """

    bos_id: int
    eos_id: int
    banned_ids: tuple[int, ...]
    beam_size: int = 1
    length_penalty: float = 0.0
    sample_seed: int | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One translation: its ids, without BOS and EOS, and its log-probability.

    The log-probability is the sum over its tokens and, if it ended by itself, EOS.
    """

    ids: list[int]
    log_probability: float

    def score(self, length_penalty: float) -> float:
        """Return what hypotheses of a sentence are ranked by: Wu et al. 2016, equation 14."""
        # Lengths count EOS, so that an empty output has length 1.
        penalty = math.pow((5.0 + len(self.ids) + 1.0) / 6.0, length_penalty)
        return self.log_probability / penalty


def rank_hypotheses(finished: list[Hypothesis], length_penalty: float) -> list[Hypothesis]:
    """Return the hypotheses best first; ties stay in the order in which they finished."""
    return sorted(finished, key=lambda each: each.score(length_penalty), reverse=True)

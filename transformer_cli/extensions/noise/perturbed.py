"""The scores of a text with each kind of noise, next to those of the text itself."""

from collections.abc import Iterator
from functools import cached_property
from random import Random
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.messages import bar
from transformer_cli.cli.display import align_columns
from transformer_cli.cli.evaluate import ScoredText
from transformer_cli.config.choices import METRICS
from transformer_cli.config.languages import base_language
from transformer_cli.evaluation.scores import Scores, score
from transformer_cli.extensions.noise.noisy_text import load_rule
from transformer_cli.extensions.noise.rules import Context, Pair
from transformer_cli.extensions.truecasing.lines import rewritten
from transformer_cli.inference.translation import Notes
from transformer_cli.inference.translator import Watcher


def perturb(scored: ScoredText, name: str) -> list[Pair]:
    """Return the pairs of a text with one kind of noise in every pair, always the same."""
    pairs = [Pair(*pair) for pair in zip(scored.pairs.src, scored.pairs.tgt, strict=True)]
    data = scored.translator.config.data
    rule = load_rule(name)
    languages = base_language(data.src_lang), base_language(data.tgt_lang)
    changed = []
    for number, pair in enumerate(pairs):
        behind = pairs[(number + 1) % len(pairs)]
        src, tgt = rule(pair, Context(*languages, Random(f"{name} {number}"), behind))
        changed.append(Pair(rewritten(pair.src, src), tgt))
    return changed


class PerturbedScores(Notes):
    """Notes with the scores of the text that each kind of noise gives."""

    def __init__(self, scored: ScoredText) -> None:
        self._scored = scored

    @cached_property
    def _scores(self) -> dict[str, Scores]:
        names = registry.all_entries("noise rule")
        scored = self._scored
        found = {}
        with bar(len(names) * len(scored.pairs), "with noise", " sentences") as shown:
            for name in names:
                src, tgt = zip(*perturb(scored, name), strict=True)
                translated = scored.translator.translate(src, Watcher(shown.update))
                found[name] = score(translated, tgt, metrics=scored.metrics)
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """The scores of each kind of noise, for the JSON report."""
        perturbed = {
            name: {metric: each._asdict() for metric, each in scores.items()}
            for name, scores in self._scores.items()
        }
        return {"perturbed": perturbed}

    def remarks(self) -> Iterator[str]:
        """Yield a table of the scores, a line for each kind of noise."""
        rows = [["noise", *(METRICS[name].label for name in next(iter(self._scores.values())))]]
        for name, scores in self._scores.items():
            rows.append([name, *(f"{each.value:.2f}" for each in scores.values())])
        yield from align_columns(rows)

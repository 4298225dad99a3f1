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
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.languages import base_language
from transformer_cli.data.corpus import ParallelText
from transformer_cli.evaluation.scores import Scores, score
from transformer_cli.extensions.noise.rules import Context, Pair
from transformer_cli.extensions.truecasing.casing import rewritten
from transformer_cli.inference.translation import Notes
from transformer_cli.inference.translator import Watcher


def variations(text: ParallelText, data: DataConfig) -> Iterator[tuple[str, ParallelText]]:
    """Yield each kind of noise and the text with it in every pair, always the same."""
    pairs = [Pair(*pair) for pair in text.pairs()]
    languages = base_language(data.src_lang), base_language(data.tgt_lang)
    for name, entry in registry.all_entries("noise rule").items():
        rule, changed = entry.load(), []
        for number, pair in enumerate(pairs):
            behind = pairs[(number + 1) % len(pairs)]
            src, tgt = rule(pair, Context(*languages, Random(f"{name} {number}"), behind))
            changed.append(Pair(rewritten(pair.src, src), tgt))
        src_lines, tgt_lines = zip(*changed, strict=True)
        yield name, ParallelText([*src_lines], [*tgt_lines])


class PerturbedScores(Notes):
    """Notes with the scores of the text that each kind of noise gives."""

    def __init__(self, scored: ScoredText) -> None:
        self._scored = scored

    @cached_property
    def _scores(self) -> dict[str, Scores]:
        scored = self._scored
        noisy = dict(variations(scored.pairs, scored.translator.config.data))
        found = {}
        with bar(len(noisy) * len(scored.pairs), "with noise", " sentences") as shown:
            for name, text in noisy.items():
                translated = scored.translator.translate(text.src, Watcher(shown.update))
                found[name] = score(translated, text.tgt, metrics=scored.metrics)
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

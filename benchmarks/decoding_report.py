"""The report's section on decoding: speeds, and how much alike and how good the outputs are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.decoding_job import Ids
from benchmarks.rounds import Result, markdown_table, median_of
from benchmarks.shortlist import FREQUENT, PER_TOKEN
from transformer_cli.evaluation.scores import score
from transformer_cli.text.protocol import Tokenizer

OURS = "ours, float32"
CTRANSLATE2 = ("CTranslate2 4.8.5, float32", "CTranslate2 4.8.5, float32, 2 workers")
JOEYNMT = "JoeyNMT 2.3.0, float32"
MARIAN = ("Marian 1.12.42, float32", "Marian 1.12.42, int8")

_CONDITIONS = """\
The 1,000 German sentences of test_2016_flickr, translated by one trained model whose weights every
program gets; greedy, and by a beam of 5 with length penalty 0.6. Token ids go in and come out:
starting, loading and tokenising are not timed. 2 threads; after a warm-up each program tries a few
batch sizes, of sentences sorted by length, and its fastest counts. CTranslate2 runs twice in
float32: with both threads on one batch, and with two workers of one thread each; "times
CTranslate2" is beside the faster of the two. Medians over {rounds} rounds, in which the contestants
take turns.

What is not alike:
- JoeyNMT takes every tenth sentence only, in order of length, as it is slow; its BLEU is of those.
- JoeyNMT's output layer has no bias, and its layer norms add 1e-6: for the weights to mean the same
  it is given a bias and 1e-5.
- CTranslate2 divides a hypothesis's log-probability by length^0.6, ours and JoeyNMT by
  ((5 + length) / 6)^0.6: it prefers longer outputs. In JoeyNMT ended hypotheses keep their places
  in the beam, in ours they leave them to others.
- With a shortlist, CTranslate2 ranks only the {candidates} target tokens that go best with each
  source token of a batch, by IBM's model 1 of the training text, and the {frequent} most frequent.
- Marian's outputs are not compared. Its decoder starts from a zero vector, its sinusoids have other
  rates, and by its source its pre-norm leaves keys and values as they are, so that no weights of
  ours mean the same there. It has our weights, two workers of one thread, and EOS ruled out: it
  writes 14 to 15 tokens a sentence, by batch size; the references have 15.2, EOS included."""

Outputs = Mapping[int, Ids]
"""Ids by the number of their sentence."""


@dataclass(frozen=True)
class FilterPass:
    """What outputs are held against: the target side's raw lines."""

    tokenizer: Tokenizer
    references: Sequence[str]

    def bleu(self, outputs: Outputs) -> float:
        """BLEU of the sentences that were translated."""
        hypotheses = [self.tokenizer.decode(ids) for ids in outputs.values()]
        return score(hypotheses, [self.references[number] for number in outputs])["bleu"].value


def report(results: Mapping[str, Sequence[Result]], judge: FilterPass) -> str:
    """The section as Markdown.

    Args:
        results: by contestant, what each round printed.
        judge: of the outputs.
    """
    conditions = _CONDITIONS.format(
        rounds=len(results[OURS]), candidates=PER_TOKEN, frequent=FREQUENT
    )
    return "\n\n".join(("## Decoding", conditions, _speeds(results), _comparison(results, judge)))


def _speeds(results: Mapping[str, Sequence[Result]]) -> str:
    header = ["contestant"]
    for search in ("greedy", "beam 5"):
        header += [f"{search}, sentences/s", "times CTranslate2", "times JoeyNMT"]
    rows = []
    for name, rounds in results.items():
        row = [name]
        for key in ("greedy_sentences_per_second", "beam5_sentences_per_second"):
            speed = median_of(rounds, key)
            ctranslate2 = max(median_of(results[peer], key) for peer in CTRANSLATE2)
            joeynmt = median_of(results[JOEYNMT], key)
            row += [f"{speed:,.0f}", f"{speed / ctranslate2:.2f}", f"{speed / joeynmt:.2f}"]
        rows.append(row)
    return markdown_table(header, rows)


def _comparison(results: Mapping[str, Sequence[Result]], judge: FilterPass) -> str:
    """Of the last round: programs that search write the same in each."""
    results = {name: rounds for name, rounds in results.items() if name not in MARIAN}
    outputs = {name: _read(Path(rounds[-1]["outputs_file"])) for name, rounds in results.items()}
    header = ["contestant"]
    for search in ("greedy", "beam 5"):
        header += [f"{search}, batch", "outputs as ours", "BLEU"]
    rows = []
    for name, rounds in results.items():
        row = [name]
        for search in ("greedy", "beam5"):
            found, ours = outputs[name][search], outputs[OURS][search]
            equal = sum(ours[number] == ids for number, ids in found.items())
            batch = rounds[-1][f"{search}_batch"]
            row += [batch, f"{equal:,} of {len(found):,}", f"{judge.bleu(found):.2f}"]
        rows.append(row)
    return markdown_table(header, rows)


def _read(outputs_file: Path) -> dict[str, Outputs]:
    """By kind of search, what a contestant wrote."""
    content: dict[str, Any] = json.loads(outputs_file.read_text(encoding="utf-8"))
    return {
        search: dict(zip(content["sentences"], content[search], strict=True))
        for search in ("greedy", "beam5")
    }

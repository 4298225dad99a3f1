"""BLEU as multi-bleu.perl has it, of lowercased Moses tokens: ``python -m benchmarks.moses_bleu``.

Many papers on Multi30k report this measure; ``evaluate`` reports sacreBLEU's, of raw text.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from transformer_cli.base.text_files import open_text


def moses_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Return multi-bleu.perl's figure for raw lines, which are normalised, cut and lowercased.

    Args:
        hypotheses: a line each.
        references: as many.
        language: of both, two letters.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # a third of a second

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)

    def tokenize(line: str) -> str:
        normal = normalizer.normalize(line.lower())
        return str(tokenizer.tokenize(normal, escape=False, return_str=True))

    # multi-bleu.perl: tokens as they come, no smoothing.
    metric = BLEU(tokenize="none", force=True, smooth_method="none")
    tokens = [[tokenize(line) for line in lines] for lines in (hypotheses, references)]
    return float(metric.corpus_score(tokens[0], [tokens[1]]).score)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the score of a file of translations."""
    parser = argparse.ArgumentParser(prog="benchmarks.moses_bleu", description=__doc__)
    parser.add_argument("hypotheses", type=Path, help="translations, a line each")
    parser.add_argument("references", type=Path, help="references, a line each")
    parser.add_argument("language", help="of both: de, en, …")
    options = parser.parse_args(arguments)

    hypotheses, references = (
        _read_lines(path) for path in (options.hypotheses, options.references)
    )
    if len(hypotheses) != len(references):
        raise SystemExit(
            f"{options.hypotheses}: {len(hypotheses)} lines, but {options.references} has "
            f"{len(references)}"
        )
    print(f"{moses_bleu(hypotheses, references, options.language):.2f}")


def _read_lines(path: Path) -> list[str]:
    with open_text(path) as file:
        return file.read().decode("utf-8").splitlines()


if __name__ == "__main__":
    main()

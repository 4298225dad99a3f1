"""The settings of BPE-dropout and of concatenated pairs."""

from typing import Any

from transformer_cli.base import registry
from transformer_cli.config.sections import Probability, Section, setting
from transformer_cli.config.tokenizer_schema import SentencePieceConfig, TokenizerSection


class AugmentationSettings(Section):
    """Keys of training."""

    src_bpe_dropout: Probability = setting(
        0.0,
        "BPE-dropout (Provilkov et al. 2020): probability of skipping a merge in a "
        "source word in training; batches then hold more tokens",
    )
    tgt_bpe_dropout: Probability = setting(0.0, "BPE-dropout of the target side")
    concatenate: Probability = setting(
        0.0,
        "probability of putting another pair behind a training pair, and again behind that, up to "
        "max_length (Nguyen et al. 2021), drawn again in each epoch, in the same time: for text "
        "longer than the corpus's sentences",
    )

    def check_with(self, config: Any) -> None:
        """Make sure that there may be merges to leave out."""
        super().check_with(config)
        for key in ("src_bpe_dropout", "tgt_bpe_dropout"):
            if getattr(self, key) and not _may_have_merges(config.tokenizer):
                raise ValueError(
                    f"training.{key}: needs merges to leave out (tokenizer.kind sentencepiece "
                    "with model_type: bpe); leave it at 0"
                )


def _may_have_merges(tokenizer: TokenizerSection) -> bool:
    if isinstance(tokenizer, SentencePieceConfig):
        return tokenizer.model_type == "bpe"
    entry = registry.find("tokenizer", tokenizer.kind)
    # What kind of model a file holds shows when it is opened.
    return entry is not None and entry.facts.get("model") == "sentencepiece"

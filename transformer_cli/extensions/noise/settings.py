"""The setting ``training.noise``, and the augmentation that it asks for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from transformer_cli.base import registry
from transformer_cli.base.errors import did_you_mean
from transformer_cli.config.languages import base_language
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Probability, Section, setting
from transformer_cli.text.protocol import Tokenizers

if TYPE_CHECKING:
    from transformer_cli.data.batches import Augmentation
    from transformer_cli.data.store import EncodedStore


class NoiseSettings(Section):
    """The setting ``training.noise``: which share of the training pairs gets which noise."""

    noise: dict[str, Probability] = setting(
        {},
        "share of the training pairs to change with each kind of noise, redrawn in each epoch, "
        "e.g. {typos: 0.1, in_quotes: 0.05}; a pair gets one kind at most",
    )

    def check_with(self, config: Any) -> None:
        """Raise ValueError if a kind is unknown or impossible, or if the shares exceed 1."""
        super().check_with(config)
        for name in self.noise:
            if registry.find("noise rule", name) is None:
                known = sorted(registry.all_entries("noise rule"))
                hint = did_you_mean(name, known) or f"choose from {', '.join(known)}"
                raise ValueError(f"training.noise.{name}: no such kind of noise; {hint}")
        if (total := sum(self.noise.values())) > 1:
            raise ValueError(
                f"training.noise: the shares add up to {total:g}; at most 1 is possible"
            )
        if self.noise.get("two_sentences") and getattr(config.tokenizer, "protect", None):
            raise ValueError(
                "training.noise: placeholders (tokenizer.protect) belong to one line, so lines "
                "cannot be joined; remove two_sentences"
            )


def find_changes(
    config: Config, tokenizers: Tokenizers, store: "EncodedStore"
) -> "Iterator[tuple[str, Augmentation]]":
    """Yield the augmentation that adds noise, if a share is above 0."""
    training = config.training
    if not isinstance(training, NoiseSettings) or not any(training.noise.values()):
        return
    from transformer_cli.extensions.noise.noisy_text import NoisyText

    data = config.data
    languages = base_language(data.src_lang), base_language(data.tgt_lang)
    yield "words", NoisyText(training.noise, languages, tokenizers, training.max_length)

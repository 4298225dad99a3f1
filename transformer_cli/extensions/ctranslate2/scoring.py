"""Score given outputs with CTranslate2."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine


def score_outputs(
    engine: "CTranslate2Engine",
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int,
) -> list[float]:
    """Return the log-probability of each target, EOS included, given its source.

    Args:
        engine: the engine with the model.
        sources: token ids, each with EOS.
        targets: token ids without BOS and EOS.
        batch_tokens: the maximum number of tokens in a padded batch.
    """
    results = engine.translator.score_batch(
        # CTranslate2 adds EOS.
        [[engine.src_names[number] for number in ids[:-1]] for ids in sources],
        [[engine.tgt_names[number] for number in ids] for ids in targets],
        max_batch_size=batch_tokens,
        batch_type="tokens",
        max_input_length=0,
    )
    return [float(sum(one.log_probs)) for one in results]

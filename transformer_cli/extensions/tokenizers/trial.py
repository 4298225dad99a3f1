"""Try out a tokenizer.json, in the child process that text/model_check.py starts."""

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

# Maximum factor by which a file may lengthen text. SentencePiece's tables make up to 18 characters
# of one.
_MAX_GROWTH = 100


def use(model: bytes, texts: Sequence[str]) -> None:
    """Try out a tokenizer.json on texts; an exception or crash means that it is unusable."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_buffer(model)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    parts = json.loads(tokenizer.to_str())
    for part in ("normalizer", "decoder"):
        if (growth := _growth(parts[part])) > _MAX_GROWTH:
            raise ValueError(f"its {part} can make text {growth:,.0f} times as long")
    # Regular expressions may take forever on repetitions.
    repeated = [f"{text * 2000}!" for text in ("a", "ab ", " ", "0", "'", "\t ")]
    for text in (*texts, *repeated):
        tokenizer.encode(text, add_special_tokens=False)
    tokenizer.decode(sorted(tokenizer.get_vocab(with_added_tokens=True).values()))


def _growth(step: dict[str, Any] | None) -> float:
    """Return the maximum factor by which a normalizer or decoder may lengthen any text."""
    match step:
        case {"type": "Sequence", "normalizers": list(steps)} | {
            "type": "Sequence",
            "decoders": list(steps),
        }:
            return math.prod(map(_growth, steps))
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
            return max(1.0, len(new) / max(1, len(old)))
        case {"type": "Replace", "content": str(new)}:
            return 1.0 + len(new)  # the pattern may match nothing
        case {"type": "Precompiled", "precompiled_charsmap": str(encoded)}:
            table = base64.b64decode(encoded)
            texts = table[4 + int.from_bytes(table[:4], "little") :]
            return float(max(1, *map(len, texts.decode(errors="replace").split("\0"))))
    return 1.0

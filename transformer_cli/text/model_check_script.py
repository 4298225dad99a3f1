"""The script of model_check.py's child process: uses a model from standard input.

The libraries do not validate a model's tables, and a wrong one can crash the process that uses it.
The script imports the library alone, to start fast.
"""

import base64
import contextlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

# In bytes. The largest models take a tenth of it; normalizers that expand text any amount.
_MAX_MEMORY = 8 << 30
# How many times longer a file may make text. SentencePiece's tables make 18 characters of one.
_MAX_GROWTH = 100


def main() -> None:
    """Use each of a model's tables; an exception or a crash means that it is unusable."""
    # A lower limit is set, or this is Windows, which has none.
    with contextlib.suppress(ValueError, OSError, ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    use = {"tokenizers": _use_tokenizers, "ctranslate2": _use_ctranslate2}
    use.get(sys.argv[1], _use_sentencepiece)(sys.stdin.buffer.read())


def _texts() -> tuple[str, str, str]:
    # Every character of the basic multilingual plane, alone and beside its neighbours: tables are
    # looked up by a text's bytes.
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    return "".join(characters), " ".join(characters), "\U0001f600 \U0010ffff"


def _use_sentencepiece(model: bytes) -> None:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    texts = _texts()
    for text in texts:
        processor.encode(text)
    with contextlib.suppress(RuntimeError):  # models of words and characters cannot sample
        processor.encode(texts[0][:0x3000], enable_sampling=True, alpha=0.5, nbest_size=-1)
    ids = list(range(processor.get_piece_size()))
    processor.id_to_piece(ids)
    processor.decode(ids)


def _use_tokenizers(model: bytes) -> None:
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
    for text in (*_texts(), *repeated):
        tokenizer.encode(text, add_special_tokens=False)
    tokenizer.decode(sorted(tokenizer.get_vocab(with_added_tokens=True).values()))


def _use_ctranslate2(path: bytes) -> None:
    import ctranslate2

    directory = os.fsdecode(path)
    translator = ctranslate2.Translator(directory, inter_threads=1, intra_threads=1)
    vocabularies = []
    for side in ("source", "target"):
        own, shared = (Path(directory, f"{name}_vocabulary.json") for name in (side, "shared"))
        vocabularies.append(json.loads((own if own.is_file() else shared).read_bytes()))
    # The last tokens, of which too small tables have no row.
    src, tgt = ([names[0], names[-1]] for names in vocabularies)
    (result,) = translator.translate_batch(
        [src], [tgt], beam_size=2, max_decoding_length=8, return_scores=True
    )
    if not math.isfinite(result.scores[0]):
        raise ValueError("its scores are no numbers")


def _growth(step: dict[str, Any] | None) -> float:
    """Return how many times longer a normalizer or a decoder can make text that was not tried."""
    match step:
        case {"type": "Sequence", "normalizers": list(steps)} | {
            "type": "Sequence",
            "decoders": list(steps),
        }:
            return math.prod(map(_growth, steps))
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
            return max(1.0, len(new) / max(1, len(old)))
        case {"type": "Replace", "content": str(new)}:
            return 1.0 + len(new)  # it may match nothing at all
        case {"type": "Precompiled", "precompiled_charsmap": str(encoded)}:
            table = base64.b64decode(encoded)
            texts = table[4 + int.from_bytes(table[:4], "little") :]
            return float(max(1, *map(len, texts.decode(errors="replace").split("\0"))))
    return 1.0


if __name__ == "__main__":
    main()

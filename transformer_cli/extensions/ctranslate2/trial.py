"""Tries a CTranslate2 model in the child process that text/model_check.py starts."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path


def use(path: bytes, texts: Sequence[str]) -> None:
    """Translate with the model in directory ``path``; if this raises or crashes, it is unusable."""
    import ctranslate2

    directory = os.fsdecode(path)
    translator = ctranslate2.Translator(directory, inter_threads=1, intra_threads=1)
    vocabularies = []
    for side in ("source", "target"):
        own, shared = (Path(directory, f"{name}_vocabulary.json") for name in (side, "shared"))
        vocabularies.append(json.loads((own if own.is_file() else shared).read_bytes()))
    # Use the last tokens, which have no row in tables that are too small.
    src, tgt = ([names[0], names[-1]] for names in vocabularies)
    (result,) = translator.translate_batch(
        [src], [tgt], beam_size=2, max_decoding_length=8, return_scores=True
    )
    if not math.isfinite(result.scores[0]):
        raise ValueError("its scores are not numbers")

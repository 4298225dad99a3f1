"""Translates a file with CTranslate2 and SentencePiece, as CTranslate2's documentation shows it.

Run by its own Python:
``python -m benchmarks.peers.ctranslate2_translate MODEL SENTENCEPIECE THREADS INPUT OUTPUT``.
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

_model, _pieces, _threads, _input, _output = sys.argv[1:]
translator = ctranslate2.Translator(_model, inter_threads=int(_threads), intra_threads=1)
processor = sentencepiece.SentencePieceProcessor(model_file=_pieces)
with Path(_input).open(encoding="utf-8") as lines:
    sources = processor.encode([line.rstrip("\n") for line in lines], out_type=str)
results = translator.translate_batch(
    sources, beam_size=1, max_batch_size=2048, batch_type="tokens", disable_unk=True
)
with Path(_output).open("w", encoding="utf-8") as file:
    for result in results:
        print(processor.decode(result.hypotheses[0]), file=file)

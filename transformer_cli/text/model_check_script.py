"""The script that model_check.py runs in a child process, to test a model from standard input.

It tests a SentencePiece model. If an argument names another script, that script's function ``use``
tests the model instead. The libraries do not validate a model's tables, and a bad table can crash
the process that uses it. To start fast, the script imports only the model's library.
"""

import contextlib
import runpy
import sys
from collections.abc import Sequence

# In bytes. The largest models take a tenth of this, but a normalizer may expand text without limit.
_MAX_MEMORY = 8 << 30


def main() -> None:
    """Use each table of the model; an exception or a crash means that the model is unusable."""
    # This fails if there is a lower limit already, and on Windows, which has no such limits.
    with contextlib.suppress(ValueError, OSError, ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    use = runpy.run_path(sys.argv[1])["use"] if len(sys.argv) > 1 else _use_sentencepiece
    use(sys.stdin.buffer.read(), _texts())


def _texts() -> tuple[str, str, str]:
    # Every character of the basic multilingual plane, alone and next to its neighbours, because
    # the bytes of a text are the keys of the tables.
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    return "".join(characters), " ".join(characters), "\U0001f600 \U0010ffff"


def _use_sentencepiece(model: bytes, texts: Sequence[str]) -> None:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    for text in texts:
        processor.encode(text)
    with contextlib.suppress(RuntimeError):  # word and character models cannot sample
        processor.encode(texts[0][:0x3000], enable_sampling=True, alpha=0.5, nbest_size=-1)
    ids = list(range(processor.get_piece_size()))
    processor.id_to_piece(ids)
    processor.decode(ids)


if __name__ == "__main__":
    main()

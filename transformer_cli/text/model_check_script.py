"""The script of model_check.py's child process: uses a model from standard input.

It uses a model of SentencePiece, or what the ``use`` of a script that is named uses.

The libraries do not validate a model's tables, and a wrong one can crash the process that uses it.
The script imports the library alone, to start fast.
"""

import contextlib
import runpy
import sys
from collections.abc import Sequence

# In bytes. The largest models take a tenth of it; normalizers that expand text any amount.
_MAX_MEMORY = 8 << 30


def main() -> None:
    """Use each of a model's tables; an exception or a crash means that it is unusable."""
    # A lower limit is set, or this is Windows, which has none.
    with contextlib.suppress(ValueError, OSError, ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    use = runpy.run_path(sys.argv[1])["use"] if len(sys.argv) > 1 else _use_sentencepiece
    use(sys.stdin.buffer.read(), _texts())


def _texts() -> tuple[str, str, str]:
    # Every character of the basic multilingual plane, alone and beside its neighbours: tables are
    # looked up by a text's bytes.
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    return "".join(characters), " ".join(characters), "\U0001f600 \U0010ffff"


def _use_sentencepiece(model: bytes, texts: Sequence[str]) -> None:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    for text in texts:
        processor.encode(text)
    with contextlib.suppress(RuntimeError):  # models of words and characters cannot sample
        processor.encode(texts[0][:0x3000], enable_sampling=True, alpha=0.5, nbest_size=-1)
    ids = list(range(processor.get_piece_size()))
    processor.id_to_piece(ids)
    processor.decode(ids)


if __name__ == "__main__":
    main()

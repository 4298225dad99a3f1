"""Trying a SentencePiece model: a script that reads it from standard input, run by subwords.py.

SentencePiece trusts a model's tables, and a wrong one can end the process that uses it. So a model
from elsewhere is first used here, where there is nothing to lose. This imports nothing else, so
that it costs little.
"""

import sys


def main() -> None:
    """Use each of a model's tables; an exception, or a crash, says that it is no good."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(sys.stdin.buffer.read())
    # Every character of the basic plane that can be in text, alone and beside its neighbours: the
    # tables are looked up by a text's bytes.
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    for text in ("".join(characters), " ".join(characters), "\U0001f600 \U0010ffff"):
        processor.encode(text)
    processor.encode("".join(characters[:0x3000]), enable_sampling=True, alpha=0.5, nbest_size=-1)
    ids = list(range(processor.get_piece_size()))
    processor.id_to_piece(ids)
    processor.decode(ids)


if __name__ == "__main__":
    main()

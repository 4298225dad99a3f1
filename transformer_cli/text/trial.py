"""Trying a tokenizer's model: a script that reads it from standard input, run by trying.py.

The libraries trust a model's tables, and a wrong one can end the process that uses it. So a model
from elsewhere is first used here, where there is nothing to lose. This imports nothing else, so
that it costs little.
"""

import contextlib
import resource
import sys

# Bytes. The largest models of today take a tenth of it; rules that blow text up take any number.
_MEMORY = 8 << 30


def main() -> None:
    """Use each of a model's tables; an exception, or a crash, says that it is no good."""
    with contextlib.suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    model = sys.stdin.buffer.read()
    if sys.argv[1] == "tokenizers":
        _try_huggingface(model)
    else:
        _try_sentencepiece(model)


def _texts() -> tuple[str, str, str]:
    # Every character of the basic plane that can be in text, alone and beside its neighbours: the
    # tables are looked up by a text's bytes.
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    return "".join(characters), " ".join(characters), "\U0001f600 \U0010ffff"


def _try_sentencepiece(model: bytes) -> None:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    texts = _texts()
    for text in texts:
        processor.encode(text)
    with contextlib.suppress(RuntimeError):  # models of words and characters have one way only
        processor.encode(texts[0][:0x3000], enable_sampling=True, alpha=0.5, nbest_size=-1)
    ids = list(range(processor.get_piece_size()))
    processor.id_to_piece(ids)
    processor.decode(ids)


def _try_huggingface(model: bytes) -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_buffer(model)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Regular expressions may take for ever on what repeats.
    repeated = [f"{each * 2000}!" for each in ("a", "ab ", " ", "0", "'", "\t ")]
    for text in (*_texts(), *repeated):
        tokenizer.encode(text, add_special_tokens=False)
    tokenizer.decode(sorted(tokenizer.get_vocab(with_added_tokens=True).values()))


if __name__ == "__main__":
    main()

"""The names under which CTranslate2 knows our ids; its interface is made of strings."""

from benchmarks.decoding_job import BOS_ID, EOS_ID, PAD_ID, UNK_ID


def token(number: int) -> str:
    """Return the name of an id."""
    return f"<{number}>"


UNK, BOS, EOS, PAD = map(token, (UNK_ID, BOS_ID, EOS_ID, PAD_ID))

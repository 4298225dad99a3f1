"""What the kinds share that are learned here, one file a side or one for both."""

from collections.abc import Callable
from pathlib import Path

from transformer_cli.files import whole_file
from transformer_cli.text.description import TrainingText, sums
from transformer_cli.text.kinds.files import Side
from transformer_cli.text.lines import Joined, Lines
from transformer_cli.text.protocol import Tokenizer, Tokenizers

FileName = Callable[[Side], str]
"""The name that a side's file, or that of both, has in a tokenizer's directory."""


def learn_files(
    joint: bool,
    text: TrainingText,
    directory: Path,
    file_name: FileName,
    learn: Callable[[Lines, str], bytes],
) -> dict[str, str]:
    """Learn from each side, or from both as one, and write what was learned into ``directory``.

    Args:
        joint: whether both sides are one.
        text: what to learn from.
        directory: where to.
        file_name: names the files.
        learn: given lines and what they are called in messages, gives a file's bytes.

    Returns:
        The files' SHA-256 by their names.
    """
    texts: dict[Side, tuple[Lines, str]] = {
        "src": (text.src, "source text"),
        "tgt": (text.tgt, "target text"),
    }
    if joint:
        texts = {"joint": (Joined(text.src, text.tgt), "training text")}
    for side, (lines, label) in texts.items():
        data = learn(lines, label)
        with whole_file(directory / file_name(side)) as temporary:
            temporary.write_bytes(data)
    return sums(directory, map(file_name, texts))


def load_files(
    joint: bool, directory: Path, file_name: FileName, load: Callable[[Path], Tokenizer]
) -> Tokenizers:
    """The tokenizers that ``load`` makes of what ``learn_files`` wrote."""
    if joint:
        both = load(directory / file_name("joint"))
        return Tokenizers(src=both, tgt=both)
    return Tokenizers(
        src=load(directory / file_name("src")), tgt=load(directory / file_name("tgt"))
    )

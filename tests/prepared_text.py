"""Text made ready for training, with pairs that are few enough to work out ids by hand."""

from pathlib import Path
from typing import Any

from texts import read_texts

from transformer_cli.config.schema import Config
from transformer_cli.data.store import EncodedText, TokenArray, read_stats
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.training.preparation import PreparedData, Texts, prepare_data

WORDS = {"kind": "words", "min_freq": 2}

Pairs = list[tuple[str, str]]

# Pairs 3 and 4 have a blank side, and so has the second of val.
TRAIN = [("a b c", "x y"), ("a b", "x"), ("", "z"), ("e", " \t "), ("a d", "x y z w v")]
VAL = [("a e", "x q r"), ("b", ""), ("b", "y")]


def write(directory: Path, name: str, pairs: Pairs) -> dict[str, str]:
    """Write aligned files; return their paths by side."""
    paths = {side: directory / f"{name}.{side}" for side in ("src", "tgt")}
    for number, path in enumerate(paths.values()):
        path.write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    return {side: str(path) for side, path in paths.items()}


def prepared(
    run: RunDirectory,
    train: Pairs = TRAIN,
    val: Pairs = VAL,
    tokenizer: dict[str, Any] = WORDS,
    init: RunDirectory | None = None,
    **added: Any,
) -> tuple[Texts, PreparedData]:
    """Prepare a run's text; ``added`` are further keys of ``data``."""
    parent = run.path.parent
    data = {"kind": "files", "src_lang": "xx", "tgt_lang": "xx"}
    files = {"train": write(parent, "train", train), "val": write(parent, "val", val)}
    config = Config.model_validate(
        {"init": init and str(init.path), "data": data | files | added, "tokenizer": tokenizer}
    )
    texts = read_texts(config.data, read_stats(run.encoded))
    initialize_run(run, config)
    return texts, prepare_data(config, texts, run)


def stored(result: PreparedData) -> EncodedText:
    """Return the training text as it was encoded."""
    pages = list(result.train.read_pages(range(result.train.num_pages)))
    sides = ([page.src for page in pages], [page.tgt for page in pages])
    return EncodedText(*map(TokenArray.concatenate, sides))


def ids(side: TokenArray) -> list[list[int]]:
    """Return the ids of each line."""
    return [side[index].tolist() for index in range(len(side))]

"""The tokenizer of a transformers model: its SentencePiece models, and its tables of ids."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformer_cli.config.setting_tree import describe_value
from transformer_cli.importing.form import ModelForm
from transformer_cli.importing.source import TOKENIZER_CONFIG, SourceFiles
from transformer_cli.text.kinds.sentencepiece import open_model
from transformer_cli.text.tokenizer import Side
from transformer_cli.text.vocabulary import BOS_ID, SPECIALS, IdMap, SpecialIds, Vocabulary

_MODELS: dict[Side, str] = {"src": "source.spm", "tgt": "target.spm"}
_TABLE, _TGT_TABLE = "vocab.json", "target_vocab.json"
# In bytes, as for other tokenizers' files.
_MAX_MODEL_SIZE = 1 << 28
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TOKENS = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
# What is for starting outputs only, if a model has it.
_START = (SPECIALS[BOS_ID], "<s>")


class Table(NamedTuple):
    """A side's ids."""

    vocabulary: Vocabulary
    """The piece of each id of the run."""
    rows: list[int]
    """The model's id of each id of the run."""
    copies_start: bool
    """Whether BOS is a copy of another special token's row."""


@dataclass(frozen=True)
class ImportedTokenizers:
    """What a model's tokenizers consist of: one a side, or a joint one."""

    models: dict[Side, bytes]
    """The files of SentencePiece; a joint one if the sides have all in common."""
    tables: dict[Side, Table]

    def table(self, side: Side) -> Table:
        """Return the table that a side uses."""
        return self.tables.get("joint") or self.tables[side]


def read_tokenizers(files: SourceFiles, form: ModelForm) -> ImportedTokenizers:
    """Read a model's tokenizers.

    Raises:
        ImportedModelError: a file is missing or damaged, or does not fit the model.
        TokenizerError: SentencePiece cannot use one of its models.
    """
    for name in (*_MODELS.values(), _TABLE):
        if not files.has(name):
            needed = f"{', '.join(_MODELS.values())} and {_TABLE}"
            problem = "missing; only models with Marian's tokenizer can be imported, which has"
            raise files.error(name, f"{problem} {needed}")
    models = {side: files.read(name, _MAX_MODEL_SIZE) for side, name in _MODELS.items()}
    for side, name in _MODELS.items():
        open_model(models[side], files.directory / name, "fetch it again")  # whether it can be used
    tokens = _special_tokens(files, form.tokenizer)
    are_separate = form.tokenizer.get("separate_vocabs") or False
    if not isinstance(are_separate, bool):
        problem = f"expected true or false, found {describe_value(are_separate)}"
        raise files.error(TOKENIZER_CONFIG, f"separate_vocabs: {problem}")
    if are_separate:
        src = _read_table(files, _TABLE, tokens, form.src_size, None)
        tgt = _read_table(files, _TGT_TABLE, tokens, form.tgt_size, form)
        return ImportedTokenizers(models, {"src": src, "tgt": tgt})
    if form.src_size != form.tgt_size:
        raise files.error(
            TOKENIZER_CONFIG,
            f"separate_vocabs: is not true, but the model has {form.src_size:,} rows for the "
            f"source and {form.tgt_size:,} for the target",
        )
    table = _read_table(files, _TABLE, tokens, form.src_size, form)
    if models["src"] == models["tgt"]:
        models = {"joint": models["src"]}
    return ImportedTokenizers(models, {"joint": table})


def _special_tokens(files: SourceFiles, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return how unk, eos and pad are spelled."""
    tokens: dict[str, str] = {}
    for key, default in _TOKENS.items():
        token = settings.get(key) or default
        # Older versions of transformers describe a token by an object.
        token = token.get("content") if isinstance(token, dict) else token
        if not isinstance(token, str):
            raise files.error(TOKENIZER_CONFIG, f"{key}: expected a token")
        tokens[key] = token
    return tokens


def _read_table(
    files: SourceFiles, name: str, tokens: Mapping[str, str], size: int, form: ModelForm | None
) -> Table:
    """Read a table of ids.

    Args:
        files: the model's directory.
        name: the table's file.
        tokens: how special tokens are spelled.
        size: rows of the embedding.
        form: the model's, if outputs are made of these ids.
    """
    ids = files.read_json(name)
    pieces = _by_id(files, name, ids, size)
    for key, token in tokens.items():
        if token not in ids:
            raise files.error(name, f"has no {token!r}, which is the {key} of {TOKENIZER_CONFIG}")
    unk, eos, pad = (ids[token] for token in tokens.values())
    start = next((ids[token] for token in _START if token in ids), pad)
    if form is not None:
        for key, own, of_model in (("eos", eos, form.eos_id), ("pad", pad, form.pad_id)):
            if own != of_model:
                piece = f"{tokens[f'{key}_token']!r} is {own}"
                raise files.error(name, f"{piece}, but the model's {key}_token_id is {of_model}")
        if not 0 <= form.start_id < size:
            raise files.error(name, f"has no decoder_start_token_id {form.start_id}")
        start = form.start_id
    # Text may have other tokens, which keep a row of their own then.
    bos = start if pieces[start] in _START else None
    try:
        id_map = IdMap(SpecialIds(unk=unk, bos=bos, eos=eos, pad=pad), ids.values())
    except ValueError as error:
        raise files.error(name, f"{error}") from None
    rows = id_map.rows(missing=start)
    ordinary = [pieces[row] for row in rows[len(SPECIALS) :]]
    _check_pieces(files, name, ordinary)
    return Table(Vocabulary(ordinary), rows, copies_start=bos is None)


def _by_id(files: SourceFiles, name: str, ids: Mapping[str, Any], size: int) -> list[str]:
    """Return the pieces in the order of their ids, which are those of the model's rows."""
    if len(ids) != size:
        raise files.error(
            name, f"has {len(ids):,} pieces, but the model has {size:,} rows for them"
        )
    pieces: list[str | None] = [None] * size
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < size:
            raise files.error(
                name, f"{piece[:60]!r} has the id {str(number)[:60]}; ids are 0 to {size - 1}"
            )
        if pieces[number] is not None:
            raise files.error(name, f"{piece[:60]!r} and {pieces[number]!r} have the id {number}")
        pieces[number] = piece
    return [piece for piece in pieces if piece is not None]


def _check_pieces(files: SourceFiles, name: str, pieces: list[str]) -> None:
    """Check that a vocabulary file can have these pieces."""
    problems: dict[str, Callable[[str], bool]] = {
        "is empty": lambda piece: not piece,
        "has a line break": lambda piece: "\n" in piece,
        "is a special token's name in our runs": lambda piece: piece in SPECIALS,
        "is not Unicode text": lambda piece: bool(_SURROGATE.search(piece)),
    }
    for piece in pieces:
        for problem, is_there in problems.items():
            if is_there(piece):
                shown = f"the piece {piece[:60]!r} {problem}"
                raise files.error(name, f"{shown}, which cannot be imported")

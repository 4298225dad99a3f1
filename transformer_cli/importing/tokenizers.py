"""The tokenizer of a transformers model: its SentencePiece models, and its tables of ids."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformer_cli.importing.form import ModelForm
from transformer_cli.importing.source import TOKENIZER_CONFIG, SourceFiles
from transformer_cli.text.kinds.sentencepiece import open_model
from transformer_cli.text.tokenizer import Side
from transformer_cli.text.vocabulary import BOS_ID, SPECIALS, IdMap, SpecialIds, Vocabulary

_MODELS: dict[Side, str] = {"src": "source.spm", "tgt": "target.spm"}
_TABLE, _TGT_TABLE = "vocab.json", "target_vocab.json"
# In bytes, as for other tokenizers' files.
_MAX_MODEL_SIZE = 1 << 28
# Line breaks end a piece in our files, and halves of surrogate pairs cannot be written.
_UNUSABLE = re.compile(r"[\n\ud800-\udfff]")
# What is for starting outputs only, if a model has it.
_START = (SPECIALS[BOS_ID], "<s>")


class Table(NamedTuple):
    """A side's ids."""

    vocabulary: Vocabulary  # the piece of each id of the run
    rows: list[int]  # the model's id of each id of the run
    copies_start: bool  # whether BOS is a copy of another special token's row


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
    """Read a model's tokenizers, and check that they fit the model."""
    for name in (*_MODELS.values(), _TABLE):
        if not files.has(name):
            needed = f"{', '.join(_MODELS.values())} and {_TABLE}"
            raise files.error(name, f"missing; only Marian's tokenizer can be imported: {needed}")
    models = {side: files.read(name, _MAX_MODEL_SIZE) for side, name in _MODELS.items()}
    for side, name in _MODELS.items():
        open_model(models[side], files.directory / name, "fetch it again")  # whether it can be used
    if form.tokenizer.separate_vocabs:
        src = _read_table(files, _TABLE, form, form.src_size, is_tgt=False)
        tgt = _read_table(files, _TGT_TABLE, form, form.tgt_size, is_tgt=True)
        return ImportedTokenizers(models, {"src": src, "tgt": tgt})
    if form.src_size != form.tgt_size:
        rows = f"{form.src_size:,} rows for the source and {form.tgt_size:,} for the target"
        problem = f"separate_vocabs: is not true, but the model has {rows}"
        raise files.error(TOKENIZER_CONFIG, problem)
    table = _read_table(files, _TABLE, form, form.src_size, is_tgt=True)
    if models["src"] == models["tgt"]:
        models = {"joint": models["src"]}
    return ImportedTokenizers(models, {"joint": table})


def _read_table(files: SourceFiles, name: str, form: ModelForm, size: int, is_tgt: bool) -> Table:
    """Read the table of ids of an embedding of ``size`` rows; outputs are made of a target's."""
    ids = files.read_json(name)
    pieces = _by_id(files, name, ids, size)
    keys = form.tokenizer
    for key in ("unk_token", "eos_token", "pad_token"):
        token = getattr(keys, key)
        if token not in ids:
            raise files.error(name, f"has no {token!r}, which is the {key} of {TOKENIZER_CONFIG}")
    unk, eos, pad = (ids[token] for token in (keys.unk_token, keys.eos_token, keys.pad_token))
    start = next((ids[token] for token in _START if token in ids), pad)
    if is_tgt:
        for key, own, of_model in (("eos", eos, form.eos_id), ("pad", pad, form.pad_id)):
            if own != of_model:
                piece = f"{pieces[own]!r} is {own}"
                raise files.error(name, f"{piece}, but the model's {key}_token_id is {of_model}")
        if form.start_id not in pieces:
            raise files.error(name, f"has no decoder_start_token_id {form.start_id}")
        start = form.start_id
    # Text may have other tokens, which keep a row of their own then.
    bos = start if pieces[start] in _START else None
    try:
        id_map = IdMap(SpecialIds(unk=unk, bos=bos, eos=eos, pad=pad), pieces)
    except ValueError as error:
        raise files.error(name, f"{error}") from None
    rows = id_map.rows(missing=start)
    ordinary = [pieces[row] for row in rows[len(SPECIALS) :]]
    for piece in ordinary:
        if not piece or piece in SPECIALS or _UNUSABLE.search(piece):
            rule = f"is Unicode text, has no line break, and is none of {', '.join(SPECIALS)}"
            problem = f"the piece {piece[:60]!r} cannot be imported: one is not empty, {rule}"
            raise files.error(name, problem)
    return Table(Vocabulary(ordinary), rows, copies_start=bos is None)


def _by_id(files: SourceFiles, name: str, ids: Mapping[str, Any], size: int) -> dict[int, str]:
    """Return the pieces by their ids, which are the numbers of the model's rows."""
    if len(ids) != size:
        problem = f"has {len(ids):,} pieces, but the model has {size:,} rows for them"
        raise files.error(name, problem)
    pieces: dict[int, str] = {}
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < size or number in pieces:
            shown = f"{piece[:60]!r} has the id {str(number)[:60]}"
            raise files.error(name, f"{shown}; ids are 0 to {size - 1}, each once")
        pieces[number] = piece
    return pieces

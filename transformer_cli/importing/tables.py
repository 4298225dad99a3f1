"""The tokenizer of a transformers model: its SentencePiece models, and its tables of ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformer_cli.config.setting_tree import describe_value
from transformer_cli.importing.model_form import ModelForm
from transformer_cli.importing.source_files import SourceFiles
from transformer_cli.text.kinds.sentencepiece import open_model
from transformer_cli.text.tokenizer import Side
from transformer_cli.text.vocabulary import BOS_ID, SPECIALS, IdMap, SpecialIds, Vocabulary

SETTINGS = "tokenizer_config.json"
_MODELS: dict[Side, str] = {"src": "source.spm", "tgt": "target.spm"}
_TABLE, _TGT_TABLE = "vocab.json", "target_vocab.json"
# In bytes, as for other tokenizers' files.
_MAX_MODEL_SIZE = 1 << 28
_TOKENS = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
# What is for starting outputs only, if a model has it.
_START = (SPECIALS[BOS_ID], "<s>")


@dataclass(frozen=True)
class Table:
    """A side's ids.

    Attributes:
        vocabulary: the piece of each id of the run.
        rows: the model's id of each id of the run.
        copies_start: whether BOS is a copy of another special token's row.
    """

    vocabulary: Vocabulary
    rows: list[int]
    copies_start: bool


@dataclass(frozen=True)
class ImportedTokenizers:
    """What a model's tokenizers consist of.

    Attributes:
        models: bytes of the SentencePiece models; a joint one if the sides have all in common.
        tables: one a side, or a joint one.
    """

    models: dict[Side, bytes]
    tables: dict[Side, Table]

    def table(self, side: Side) -> Table:
        """Return the table that a side uses."""
        return self.tables.get("joint") or self.tables[side]


def read_tokenizers(
    files: SourceFiles, settings: Mapping[str, Any], form: ModelForm
) -> ImportedTokenizers:
    """Read a model's tokenizers.

    Args:
        files: the model's directory.
        settings: what is in tokenizer_config.json.
        form: the model's.

    Raises:
        ImportedModelError: a file is missing or damaged, or does not fit the model.
        TokenizerError: SentencePiece cannot use one of its models.
    """
    for name in (*_MODELS.values(), _TABLE):
        if not files.has(name):
            raise files.error(
                name,
                "missing; only models with Marian's tokenizer can be imported, which has "
                f"{', '.join(_MODELS.values())} and {_TABLE}",
            )
    models = {side: _read_model(files, name) for side, name in _MODELS.items()}
    tokens = _special_tokens(files, settings)
    are_separate = settings.get("separate_vocabs") or False
    if not isinstance(are_separate, bool):
        raise files.error(
            SETTINGS,
            f"separate_vocabs: expected true or false, found {describe_value(are_separate)}",
        )
    if are_separate:
        src = _read_table(files, _TABLE, tokens, form.src_size, None)
        tgt = _read_table(files, _TGT_TABLE, tokens, form.tgt_size, form)
        return ImportedTokenizers(models, {"src": src, "tgt": tgt})
    if form.src_size != form.tgt_size:
        raise files.error(
            SETTINGS,
            f"separate_vocabs: is not true, but the model has {form.src_size:,} rows for the "
            f"source and {form.tgt_size:,} for the target",
        )
    table = _read_table(files, _TABLE, tokens, form.src_size, form)
    if models["src"] == models["tgt"]:
        models = {"joint": models["src"]}
    return ImportedTokenizers(models, {"joint": table})


def _read_model(files: SourceFiles, name: str) -> bytes:
    """Read a SentencePiece model, and check that SentencePiece can use it."""
    data = files.read(name, _MAX_MODEL_SIZE)
    open_model(data, files.directory / name, "fetch it again")
    return data


def _special_tokens(files: SourceFiles, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return how unk, eos and pad are spelled."""
    tokens: dict[str, str] = {}
    for key, default in _TOKENS.items():
        found = settings.get(key) or default
        # Older versions of transformers describe a token by an object.
        text = found.get("content") if isinstance(found, dict) else found
        if not isinstance(text, str):
            raise files.error(SETTINGS, f"{key}: expected a token")
        tokens[key] = text
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
    found: dict[str, int] = {}
    for key, token in tokens.items():
        if token not in ids:
            raise files.error(name, f"has no {token!r}, which is the {key} of {SETTINGS}")
        found[key] = ids[token]
    unk, eos, pad = found.values()
    start = next((ids[token] for token in _START if token in ids), pad)
    if form is not None:
        for key, own, of_model in (("eos", eos, form.eos_id), ("pad", pad, form.pad_id)):
            if own != of_model:
                raise files.error(
                    name,
                    f"{tokens[f'{key}_token']!r} is {own}, but the model's {key}_token_id is "
                    f"{of_model}",
                )
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
    for piece in pieces:
        problem = (
            "is empty"
            if not piece
            else "has a line break"
            if "\n" in piece
            else "is a special token's name in our runs"
            if piece in SPECIALS
            else "is not Unicode text"
            if any("\ud800" <= sign <= "\udfff" for sign in piece)
            else None
        )
        if problem:
            raise files.error(name, f"the piece {piece[:60]!r} {problem}, which cannot be imported")

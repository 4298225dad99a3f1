"""Writes an imported model as a run: its weights, and its tokenizers with renumbered ids."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import remove_leftovers, whole_directory
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.exchange.form import TOKENIZER_CONFIG, ModelFiles, ModelForm
from transformer_cli.extensions.exchange.imported import IMPORT, ImportedData, MarianConfig
from transformer_cli.extensions.exchange.marian import write_tokenizers
from transformer_cli.extensions.exchange.weights import (
    find_tying,
    from_transformers,
    read_tensors,
    take_rows,
)
from transformer_cli.extensions.tokenizers.made_elsewhere import IdMap, SpecialIds
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import RunDirectory, write_mark
from transformer_cli.text.protocol import BOS_ID, SPECIALS
from transformer_cli.text.sentencepiece import open_model
from transformer_cli.text.tokenizer import Side, fingerprint
from transformer_cli.text.words import Vocabulary

_NEVER = -100.0  # gives probability 0 in float32 next to any logits of a model


def write_run(
    files: ModelFiles,
    form: ModelForm,
    languages: tuple[str, str],
    source: str,
    revision: str | None,
    run: Path,
) -> None:
    """Write a model of transformers as a run; if this fails, there is no run directory.

    ``source`` is the model's directory or, if ``revision`` names a commit, its name on the Hub.
    """
    models, tables = _read_tokenizers(files, form)
    tensors = read_tensors(files, form)
    is_joint = "joint" in tables
    tying = find_tying(tensors)
    model = form.model.model_copy(
        update={"tying": "output" if tying == "all" and not is_joint else tying}
    )
    config = Config(
        data=ImportedData(kind="imported", src_lang=languages[0], tgt_lang=languages[1]),
        tokenizer=MarianConfig(kind="marian", joint=is_joint),
        model=model,
        decoding=form.decoding,
    )
    src, tgt = tables.values() if len(tables) == 2 else [tables["joint"]] * 2
    weights = take_rows(from_transformers(tensors, model), src.rows, tgt.rows)
    if tgt.copies_start:
        # BOS is a copy of another token's row, so the softmax must not count it twice.
        weights["output.bias"][BOS_ID] = _NEVER
    record = {"format": 1, "source": source, "revision": revision, "sha256": files.sha256}
    record["version"] = __version__
    # Replaces the training text's checksum: the same model has the same fingerprint.
    sums = sum_json(files.sha256)
    vocabularies = {side: table.vocabulary for side, table in tables.items()}
    run.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run.parent, others=[run.name])
    with whole_directory(run) as temporary:
        written = RunDirectory(temporary)
        write_mark(temporary, config)
        write_text(written.config, dump_config(config))
        written.tokenizer.mkdir()
        write_tokenizers(models, vocabularies, sums, written.tokenizer)
        written.checkpoints.mkdir()
        state = {"step": 0}
        save_checkpoint(written.checkpoints, weights, {}, state, fingerprint(written.tokenizer))
        write_text(temporary / IMPORT, json.dumps(record, indent=1) + "\n")


_MODELS: dict[Side, str] = {"src": "source.spm", "tgt": "target.spm"}
_TABLE, _TGT_TABLE = "vocab.json", "target_vocab.json"
_MAX_MODEL_SIZE = 1 << 28  # in bytes; the same limit as for other tokenizers' files
# In our files, line breaks end a piece, and surrogates cannot be written.
_UNUSABLE = re.compile(r"[\n\ud800-\udfff]")
_START = (SPECIALS[BOS_ID], "<s>")  # tokens that only start outputs, if a model has one


class _Table(NamedTuple):
    """How a run's token ids correspond to those of the imported model, for one language or both."""

    vocabulary: Vocabulary  # the subword of each id of the run
    rows: list[int]  # the model's id of each id of the run
    copies_start: bool  # whether BOS is a copy of another special token's row


def _read_tokenizers(
    files: ModelFiles, form: ModelForm
) -> tuple[dict[Side, bytes], dict[Side, _Table]]:
    """Read and check Marian's SentencePiece and vocabulary files, one per language or one joint."""
    for name in (*_MODELS.values(), _TABLE):
        if not files.has(name):
            needed = f"{', '.join(_MODELS.values())} and {_TABLE}"
            raise files.error(name, f"missing; only Marian's tokenizer can be imported: {needed}")
    models = {side: files.read(name, _MAX_MODEL_SIZE) for side, name in _MODELS.items()}
    for side, name in _MODELS.items():
        open_model(models[side], files.directory / name, "fetch it again")  # check that it works
    if form.tokenizer.separate_vocabs:
        src = _read_table(files, _TABLE, form, form.src_size, is_tgt=False)
        tgt = _read_table(files, _TGT_TABLE, form, form.tgt_size, is_tgt=True)
        return models, {"src": src, "tgt": tgt}
    if form.src_size != form.tgt_size:
        rows = f"{form.src_size:,} rows for the source and {form.tgt_size:,} for the target"
        problem = f"separate_vocabs: is not true, but the model has {rows}"
        raise files.error(TOKENIZER_CONFIG, problem)
    table = _read_table(files, _TABLE, form, form.src_size, is_tgt=True)
    if models["src"] == models["tgt"]:
        models = {"joint": models["src"]}
    return models, {"joint": table}


def _read_table(files: ModelFiles, name: str, form: ModelForm, size: int, is_tgt: bool) -> _Table:
    """Read a vocabulary file for ``size`` embedding rows; if ``is_tgt``, check special ids, too."""
    ids = files.read_json(name)
    pieces = _by_id(files, name, ids, size)
    keys = form.tokenizer
    for key in ("unk_token", "eos_token", "pad_token"):
        token = getattr(keys, key)
        if token not in ids:
            raise files.error(name, f"lacks {token!r}, the {key} of {TOKENIZER_CONFIG}")
    unk, eos, pad = (ids[token] for token in (keys.unk_token, keys.eos_token, keys.pad_token))
    start = next((ids[token] for token in _START if token in ids), pad)
    if is_tgt:
        for key, own, of_model in (("eos", eos, form.eos_id), ("pad", pad, form.pad_id)):
            if own != of_model:
                piece = f"{pieces[own]!r} is {own}"
                raise files.error(name, f"{piece}, but the model's {key}_token_id is {of_model}")
        if form.start_id not in pieces:
            raise files.error(name, f"lacks the decoder_start_token_id {form.start_id}")
        start = form.start_id
    # If text may contain the start token, it keeps its own row.
    bos = start if pieces[start] in _START else None
    try:
        id_map = IdMap(SpecialIds(unk=unk, bos=bos, eos=eos, pad=pad), pieces)
    except ValueError as error:
        raise files.error(name, f"{error}") from None
    rows = id_map.rows(missing=start)
    ordinary = [pieces[row] for row in rows[len(SPECIALS) :]]
    for piece in ordinary:
        if not piece or piece in SPECIALS or _UNUSABLE.search(piece):
            rule = f"must be text without line breaks, not empty or {' or '.join(SPECIALS)}"
            problem = f"the piece {piece[:60]!r} cannot be imported: a piece {rule}"
            raise files.error(name, problem)
    return _Table(Vocabulary(ordinary), rows, copies_start=bos is None)


def _by_id(files: ModelFiles, name: str, ids: Mapping[str, Any], size: int) -> dict[int, str]:
    """Return a dict from ids, which are also indices of embedding rows, to subwords."""
    if len(ids) != size:
        problem = f"has {len(ids):,} pieces, but the model has {size:,} rows for them"
        raise files.error(name, problem)
    pieces: dict[int, str] = {}
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < size or number in pieces:
            shown = f"{piece[:60]!r} has the id {str(number)[:60]}"
            raise files.error(name, f"{shown}; ids must be 0 to {size - 1}, each once")
        pieces[number] = piece
    return pieces

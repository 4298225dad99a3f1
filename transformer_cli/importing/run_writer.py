"""Write an imported model as a run."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer_cli.config.data_schema import ImportedData
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.tokenizer_schema import MarianConfig
from transformer_cli.config.yaml import dump_config
from transformer_cli.files import whole_directory, write_text
from transformer_cli.importing.model_form import ModelForm
from transformer_cli.importing.source_files import SourceFiles
from transformer_cli.importing.tables import (
    SETTINGS,
    ImportedTokenizers,
    Table,
    read_tokenizers,
)
from transformer_cli.importing.tensors import read_tensors
from transformer_cli.interop.weights import find_tying, from_transformers, take_rows
from transformer_cli.runs.checkpoint_writer import save_checkpoint
from transformer_cli.runs.contents import IMPORT
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.mark import write_mark
from transformer_cli.text.kinds.marian import write_tokenizers
from transformer_cli.text.tokenizer import MANIFEST_NAME, fingerprint
from transformer_cli.text.vocabulary import BOS_ID
from transformer_cli.version import __version__

# Probability 0 in float32, beside any logits of a model.
_NEVER = -100.0
# As after no step of a training.
_STATE = {
    "step": 0,
    "epoch": 0,
    "batch": 0,
    "skipped": 0,
    "batches_a_step": 1,
    "best_step": None,
    "best_rank": 0.0,
    "best_loss": 0.0,
    "bad_validations": 0,
    "seconds": 0.0,
}


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        name: as the user names it: a directory, or a name of the Hub.
        files: its files.
        revision: the Hub's commit; None: it is a directory.
    """

    name: str
    files: SourceFiles
    revision: str | None = None


@dataclass(frozen=True)
class ImportedModel:
    """A model as a run has it."""

    config: Config
    tokenizers: ImportedTokenizers
    weights: dict[str, Tensor]


def read_settings(files: SourceFiles) -> dict[str, Any]:
    """Return what is in tokenizer_config.json; nothing if there is none."""
    return files.read_json(SETTINGS) if files.has(SETTINGS) else {}


def read_model(
    files: SourceFiles,
    form: ModelForm,
    settings: Mapping[str, Any],
    languages: tuple[str, str],
    log: Callable[[str], object],
) -> ImportedModel:
    """Read a model of transformers.

    Args:
        files: its directory.
        form: what ``read_form`` returns for it.
        settings: what is in tokenizer_config.json.
        languages: of its source and its target.
        log: told what a user should know.

    Raises:
        ImportedModelError: it is damaged, or has a form that ours cannot have.
        TokenizerError: SentencePiece cannot use one of its models.
    """
    tokenizers = read_tokenizers(files, settings, form)
    tensors = read_tensors(files, form, log)
    tying = find_tying(tensors)
    if tying == "all" and "joint" not in tokenizers.tables:
        tying = "output"
    model = form.model.model_copy(update={"tying": tying})
    config = Config(
        data=ImportedData(kind="imported", src_lang=languages[0], tgt_lang=languages[1]),
        tokenizer=MarianConfig(kind="marian", joint="joint" in tokenizers.tables),
        model=model,
        decoding=form.decoding,
    )
    src, tgt = (tokenizers.table(side) for side in ("src", "tgt"))
    return ImportedModel(config, tokenizers, _map_weights(tensors, model, src, tgt))


def _map_weights(
    tensors: Mapping[str, Tensor], model: ModelConfig, src: Table, tgt: Table
) -> dict[str, Tensor]:
    weights = take_rows(from_transformers(tensors, model), src.rows, tgt.rows)
    if tgt.copies_start:
        # Another token's row: the softmax must not count it twice.
        weights["output.bias"][BOS_ID] = _NEVER
    return weights


def write_run(model: ImportedModel, source: Source, run: Path) -> None:
    """Write a run, which appears whole or not at all.

    Raises:
        OSError, CheckpointError: it cannot be written.
    """
    with whole_directory(run) as temporary:
        directory = RunDirectory(temporary)
        for path in (directory.tokenizer, directory.checkpoints):
            path.mkdir()
        write_mark(temporary)
        write_text(directory.config, dump_config(model.config))
        _write_tokenizer(model.tokenizers, source.files, directory.tokenizer)
        save_checkpoint(
            directory.checkpoints, model.weights, {}, _STATE, fingerprint(directory.tokenizer)
        )
        record = {
            "format": 1,
            "source": source.name,
            "revision": source.revision,
            "sha256": source.files.sha256,
            "version": __version__,
        }
        write_text(temporary / IMPORT, json.dumps(record, indent=1) + "\n")


def _write_tokenizer(tokenizers: ImportedTokenizers, files: SourceFiles, directory: Path) -> None:
    vocabularies = {side: table.vocabulary for side, table in tokenizers.tables.items()}
    # Stands for the training text: the same model has the same fingerprint.
    sums = json.dumps(files.sha256, sort_keys=True).encode()
    manifest = write_tokenizers(
        tokenizers.models, vocabularies, hashlib.sha256(sums).hexdigest(), directory
    )
    write_text(directory / MANIFEST_NAME, manifest.model_dump_json(indent=2) + "\n")

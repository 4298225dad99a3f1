"""Verifies, tries and loads models exported for CTranslate2, which may come from strangers."""

import os
from pathlib import Path

from transformer_cli.base.artifact import Artifact, Record, record_files, write_record
from transformer_cli.base.errors import CheckpointError, RunError
from transformer_cli.base.locations import open_regular
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import shorten
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.ctranslate2.converted import SUMS
from transformer_cli.extensions.ctranslate2.engine import (
    CTranslate2Engine,
    CTranslate2Translator,
    read_json,
)
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.model_check import find_fault
from transformer_cli.text.protocol import BOS_ID, EOS_ID, SPECIALS, UNK_ID
from transformer_cli.text.tokenizer import load_tokenizers

SETTINGS = "settings.yaml"
"""The file with the run's settings in an exported model, which has no config.yaml."""
_TRIAL = Path(__file__).with_name("trial.py")
_VOCABULARIES = {"shared_vocabulary.json", "target_vocabulary.json"}
_FILES = {"model.bin", "config.json", "source_vocabulary.json", *_VOCABULARIES}
TOKEN_SETTINGS = {
    "unk_token": SPECIALS[UNK_ID],
    "bos_token": SPECIALS[BOS_ID],
    "eos_token": SPECIALS[EOS_ID],
    "decoder_start_token": SPECIALS[BOS_ID],
    "add_source_bos": False,
    "add_source_eos": True,
}
"""The settings in config.json that make CTranslate2 use special tokens as our search does."""


def load_settings(run: RunDirectory) -> Config:
    """Load the run's settings from the file settings.yaml in an exported model."""
    if not (run.path / SETTINGS).is_file():
        raise RunError(
            f"{run.path}: has a CTranslate2 model but no {SETTINGS}; create it "
            "with: transformer-cli export RUN DIR --format ctranslate2"
        )
    return load_config(run.path / SETTINGS)


def load_exported(run: RunDirectory, options: ComputeOptions) -> CTranslate2Translator:
    """Load an exported model, after verifying its files and trying it in a child process."""
    config = load_settings(run)
    for path in run.path.iterdir():
        if not path.is_dir():
            open_regular(path).close()  # CTranslate2 would wait for a pipe
    tokenizers = load_tokenizers(run.tokenizer)
    sums = verified_sums(run.path)
    if sums is None:
        raise CheckpointError(
            f"{run.path}: its files do not match the checksums in {SUMS}; export it again"
        )
    _check_settings(run.path / "config.json")

    def check_usable() -> None:
        if fault := find_fault("ctranslate2", _TRIAL, os.fsencode(run.path), sums):
            raise CheckpointError(f"{run.path}: {fault}; export it again")

    engine = CTranslate2Engine.open(
        run.path,
        config.model,
        tokenizers,
        options.threads,
        options.precision,
        check_usable,
    )
    return CTranslate2Translator(
        engine, tokenizers, config, config.decoding, checkpoint=sums["model.bin"]
    )


def verified_sums(directory: Path) -> dict[str, str] | None:
    """Return a dict of the SHA-256 checksums of a model's files; None if a file has changed."""
    model = Artifact(directory, Record, SUMS)
    try:
        # Ignore pipes, devices and links: the directory may have come from anywhere.
        present = {name for name in (SUMS, *_FILES) if (directory / name).is_file()}
        record = model.read() if SUMS in present else None
        if (
            record is None
            or not _VOCABULARIES & record.files.keys()
            or record.files.keys() != present - {SUMS}
            or "model.bin" not in present
            or model.find_damage(record, compares_sums=True)
        ):
            return None
    except OSError:
        return None
    return {name: file.sha256 for name, file in record.files.items()}


def _check_settings(path: Path) -> None:
    """Check that CTranslate2 uses the same special tokens as our search."""
    settings = read_json(path, dict, "settings")
    for key, expected in TOKEN_SETTINGS.items():
        if (found := settings.get(key)) != expected:
            raise CheckpointError(
                f"{path}: {key} is {shorten(str(found))}, not {expected}; export the model again"
            )


def write_sums(directory: Path) -> None:
    """Write the checksums of an exported model's files into its directory."""
    write_record(directory / SUMS, Record(made_of={}, files=record_files(directory)))

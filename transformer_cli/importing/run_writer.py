"""Write an imported model as a run."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.config.data_schema import ImportedData
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import MarianConfig
from transformer_cli.config.yaml import dump_config
from transformer_cli.files import remove_leftovers, whole_directory
from transformer_cli.importing.form import ModelForm
from transformer_cli.importing.source import SourceFiles
from transformer_cli.importing.tensors import read_tensors
from transformer_cli.importing.tokenizers import read_tokenizers
from transformer_cli.importing.weights import find_tying, from_transformers, take_rows
from transformer_cli.packages import __version__
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import IMPORT, RunDirectory, write_mark
from transformer_cli.text.kinds.marian import write_tokenizers
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.text.vocabulary import BOS_ID

# Probability 0 in float32, beside any logits of a model.
_NEVER = -100.0


def write_run(
    files: SourceFiles,
    form: ModelForm,
    languages: tuple[str, str],
    source: str,
    revision: str | None,
    run: Path,
    log: Callable[[str], object],
) -> None:
    """Write a model of transformers as a run, which appears whole or not at all.

    ``source`` is the model's directory or its name on the Hub, and ``revision`` the Hub's commit,
    for the record; the parents of ``run`` need not be there.
    """
    tokenizers = read_tokenizers(files, form)
    tensors = read_tensors(files, form, log)
    is_joint = "joint" in tokenizers.tables
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
    src, tgt = tokenizers.table("src"), tokenizers.table("tgt")
    weights = take_rows(from_transformers(tensors, model), src.rows, tgt.rows)
    if tgt.copies_start:
        # Another token's row: the softmax must not count it twice.
        weights["output.bias"][BOS_ID] = _NEVER
    record = {
        "format": 1,
        "source": source,
        "revision": revision,
        "sha256": files.sha256,
        "version": __version__,
    }
    # Stands for the training text: the same model has the same fingerprint.
    sums = hashlib.sha256(json.dumps(files.sha256, sort_keys=True).encode()).hexdigest()
    vocabularies = {side: table.vocabulary for side, table in tokenizers.tables.items()}
    run.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run.parent, others=[run.name])
    with whole_directory(run) as temporary:
        written = RunDirectory(temporary)
        write_mark(temporary)
        write_text(written.config, dump_config(config))
        written.tokenizer.mkdir()
        write_tokenizers(tokenizers.models, vocabularies, sums, written.tokenizer)
        written.checkpoints.mkdir()
        state = {"step": 0}
        save_checkpoint(written.checkpoints, weights, {}, state, fingerprint(written.tokenizer))
        write_text(temporary / IMPORT, json.dumps(record, indent=1) + "\n")

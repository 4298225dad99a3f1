"""Exports a trained model for CTranslate2, with a model card that explains its use."""

from pathlib import Path

from transformer_cli.base.text_files import write_text
from transformer_cli.config.choices import Quantization
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.ctranslate2.exported_models import SETTINGS, write_sums
from transformer_cli.extensions.ctranslate2.spec import write_model
from transformer_cli.extensions.exchange.card import write_card
from transformer_cli.extensions.exchange.formats import write_tokenizer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel

_USE = """\
With CTranslate2 and SentencePiece (`pip install ctranslate2 sentencepiece`), and this directory in
`{name}`:

    import ctranslate2
    import sentencepiece

    src = sentencepiece.SentencePieceProcessor(model_file="{name}/tokenizer/{src_model}")
    tgt = sentencepiece.SentencePieceProcessor(model_file="{name}/tokenizer/{tgt_model}")
    translator = ctranslate2.Translator("{name}")
    tokens = src.encode(["..."], out_type=str)
    results = translator.translate_batch(tokens, beam_size=1, disable_unk=True)
    translations = [tgt.decode(result.hypotheses[0]) for result in results]

CTranslate2 adds the end of a source itself. It stops after 256 tokens, unless
`max_decoding_length` is set.

"""
_LOWERCASED = "The model was trained on lowercased text: lowercase the source first.\n\n"
_USE_OURS = """\
With transformer-cli, which translates a file line by line, and this directory in `{name}`:

    transformer-cli translate {name} -i in.{src} -o out.{tgt}
"""


def write_ctranslate2(
    run: RunDirectory, trained: TrainedModel, directory: Path, quantization: Quantization
) -> None:
    """Write the model, its tokenizers, its settings and a model card into an empty directory."""
    # Users of CTranslate2 alone do not know the tags.
    write_model(trained, quantization, directory, never_written=trained.tokenizers.tgt.source_ids)
    write_sums(directory)
    write_text(directory / SETTINGS, dump_config(trained.config))
    is_joint = (write_tokenizer(run, directory) / "joint.model").is_file()
    src, tgt = ("joint", "joint") if is_joint else ("src", "tgt")
    config = trained.config.tokenizer
    use = _USE_OURS
    has_models = config.kind in ("sentencepiece", "sentencepiece_file")
    if has_models and not trained.tokenizers.reserved:  # otherwise users need this program
        use = _USE + (_LOWERCASED if config.lowercase else "") + use
    named = {"src_model": f"{src}.model", "tgt_model": f"{tgt}.model"}
    write_card(run, trained, directory, "ctranslate2", use, **named)

"""Models for CTranslate2, alone and in the packages of Argos Translate and LibreTranslate."""

import re
import shutil
import tempfile
import zipfile
from pathlib import Path

from transformer_cli.base.errors import UsageError
from transformer_cli.base.text_files import write_text
from transformer_cli.config.choices import Quantization
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.ctranslate2.choosing import SETTINGS
from transformer_cli.extensions.ctranslate2.converted import write_sums
from transformer_cli.extensions.ctranslate2.spec import write_model
from transformer_cli.extensions.exchange.card import write_card
from transformer_cli.extensions.exchange.formats import write_json, write_tokenizer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, PAD_ID, UNK_ID

_PACKAGE_VERSION = "1.0"
_ARGOS_VERSION = "1.11"  # the version of Argos Translate that it is tested with
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
_USE_ARGOS = """\
With Argos Translate (`pip install argostranslate`), and this package in `{package}`:

    from argostranslate import package, translate

    package.install_from_path("{package}")
    print(translate.translate("...", "{src}", "{tgt}"))

The first translation needs the internet: Argos Translate fetches a model that splits sentences.
LibreTranslate serves all packages that are installed.
"""


def write_ctranslate2(
    run: RunDirectory, trained: TrainedModel, directory: Path, quantization: Quantization
) -> None:
    """Write the model, its tokenizers, its settings and a card into an empty directory."""
    # Who searches it with CTranslate2 alone does not know the tags.
    never_written = trained.tokenizers.tgt.source_ids
    write_model(trained, quantization, directory, never_written=never_written)
    write_sums(directory)
    write_text(directory / SETTINGS, dump_config(trained.config))
    is_joint = (write_tokenizer(run, directory) / "joint.model").is_file()
    models = ("joint.model", "joint.model") if is_joint else ("src.model", "tgt.model")
    config, src = trained.config.tokenizer, trained.tokenizers.src
    use = _USE_OURS
    if config.kind == "sentencepiece" and src.text_size == src.size:  # others need this program
        use = _USE + (_LOWERCASED if config.lowercase else "") + use
    named = {"src_model": models[0], "tgt_model": models[1]}
    write_card(run, trained, directory, "ctranslate2", use, **named)


def check_argos(config: Config, tokenizers: Tokenizers) -> None:
    """Refuse by a UsageError a tokenizer of more than one SentencePiece model without rules."""
    kind, src, tgt = config.tokenizer.kind, tokenizers.src, tokenizers.tgt
    advice = "train with tokenizer {kind: sentencepiece, joint: true}"
    if src.text_size != src.size:
        problem = "its SentencePiece knows no reserved tokens"
        advice = "train without tokenizer.protect and data.terms, and with no tag in a source"
    elif src.sentencepiece_model is None:
        problem = f"it has one SentencePiece model and no other tokenizer, as '{kind}'"
    elif src is not tgt:
        problem = "it has one SentencePiece model for both languages, and this model has two"
        advice = "export it for ctranslate2 or transformers" if kind == "marian" else advice
    elif config.tokenizer.lowercase:
        problem = "it gives the model text as it is, and this one takes lower case only"
        advice = "train with tokenizer.lowercase false"
    else:
        return
    raise UsageError(f"--format argos: a package cannot have this model: {problem}; {advice}")


def write_argos(
    run: RunDirectory, trained: TrainedModel, package: Path, quantization: Quantization
) -> None:
    """Write the package of a model; the same model always gives the same bytes."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        src, tgt = trained.config.data.src_lang, trained.config.data.tgt_lang
        model = directory / "model"
        model.mkdir()
        # Argos bans no token in search.
        write_model(trained, quantization, model, never_written=(UNK_ID, BOS_ID, PAD_ID))
        shutil.copyfile(run.tokenizer / "joint.model", directory / "sentencepiece.model")
        metadata = {
            "package_version": _PACKAGE_VERSION,
            "argos_version": _ARGOS_VERSION,
            "from_code": src,
            "from_name": _name_language(src),
            "to_code": tgt,
            "to_name": _name_language(tgt),
        }
        write_json(directory / "metadata.json", metadata)
        name = f"translate-{src}_{tgt}"
        write_card(
            run, trained, directory, "argostranslate", _USE_ARGOS, package=f"{name}.argosmodel"
        )
        version = _PACKAGE_VERSION.replace(".", "_")
        _zip(directory, f"{name}-{version}", package)


def _name_language(code: str) -> str:
    """Return a language's English name as spaCy has it; the code where it has none."""
    from spacy.util import get_lang_class

    try:
        name = get_lang_class(code).__name__
    except ImportError:
        return code
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _zip(directory: Path, name: str, package: Path) -> None:
    """Write the files below ``directory`` into a zip, below ``name``, without their times."""
    with zipfile.ZipFile(package, "w") as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_dir():
                continue
            place = f"{name}/{path.relative_to(directory).as_posix()}"
            entry = zipfile.ZipInfo(place)  # of 1980, without a time
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target, 1 << 20)

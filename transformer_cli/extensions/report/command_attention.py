"""``transformer-cli attention``."""

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, option

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.extensions.report import attention_maps, attention_picture
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory


def attention(
    run: options.Run,
    sentence: Annotated[str, argument("SENTENCE", "Source sentence.")],
    output: Annotated[Path, option("FILE", "The picture: .png, .svg or .pdf.", "--output", "-o")],
    kind: Annotated[
        Literal["cross", "encoder", "decoder"],
        option(None, "Cross-attention, or the self-attention of encoder or decoder."),
    ] = "cross",
    layer: Annotated[int | None, option("N", "Draw each head of this layer.", min=1)] = None,
    head: Annotated[
        int | None, option("N", "Draw this head of each layer, or of --layer.", min=1)
    ] = None,
    translation: Annotated[
        str | None, option("TEXT", "Use this translation instead of the model's.")
    ] = None,
    checkpoint: options.Checkpoint = "best",
    beam_size: options.BeamSize = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
) -> None:
    """Draw a model's attention while it translates a sentence, and print the translation.

    A row is a target token, a column a source token; dark is a high weight. By default each layer
    is drawn, as the mean of its heads.

    \b
    Example:
      transformer-cli attention runs/toy 'Ein Hund schläft.' -o attention.png
    """
    # Before it is imported: it says where its caches are, if there is no home directory.
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    options.check_output(output, runs=[run])
    with options.prefix_errors("-o "):
        attention_picture.picture_format(output)
    check_sentence(sentence, "SENTENCE")
    if translation is not None:
        check_sentence(translation, "--translation")
    compute = loading.ComputeOptions("torch", device, precision, threads, beam_size)
    with writing.claim(output):
        translator, _ = loading.load_scorer(directory.RunDirectory(run), checkpoint, compute)
        ids = None
        if translation is not None:
            source = translator.tokenizers.encode_source(sentence)
            ids = translator.tokenizers.encode_prefix(translation, source)
        maps = attention_maps.compute_attention_maps(translator, sentence.strip(), ids)
        with options.prefix_errors("--"):
            panels = attention_picture.select_panels(maps, kind, layer, head)
        scripts = attention_picture.draw(panels, output)
    if scripts:
        warn(
            str(output),
            f"no font has {', '.join(scripts)}, drawn as boxes; install Noto fonts, on Debian "
            "fonts-noto-cjk for Chinese, Japanese and Korean, or fonts-noto-core for others",
        )
    typer.echo(maps.translation)


def check_sentence(text: str, name: str) -> None:
    """Make sure that ``text``, which ``name`` names on the command line, is a line of text."""
    # Python makes half a surrogate pair of each byte that is not UTF-8.
    is_utf8 = not any("\ud800" <= sign <= "\udfff" for sign in text)
    if not text.strip():
        raise UsageError(f"{name}: is empty; give a sentence")
    if "\n" in text.strip() or not is_utf8:
        raise UsageError(f"{name} {text!r}: is no line of UTF-8 text; give a sentence")

"""``transformer-cli attention``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from transformer_cli.cli import options


def attention(
    run: options.Run,
    sentence: Annotated[
        str, typer.Argument(metavar="SENTENCE", help="What to translate.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The picture: .png, .svg or .pdf.",
            show_default=False,
        ),
    ],
    kind: Annotated[
        Literal["cross", "encoder", "decoder"],
        typer.Option(help="Translation on source, source on itself, translation on itself."),
    ] = "cross",
    layer: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The heads of this layer, one by one.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="This head of each layer, or of --layer."),
    ] = None,
    translation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this translation, not the model's.")
    ] = None,
    checkpoint: options.Checkpoint = "best",
    beam_size: options.BeamSize = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Draw where a model looks while it translates a sentence, and print the translation.

    A row is a step of the translation, and is dark where the step looks. Drawn is each layer, as
    the mean of its heads, unless told otherwise.

    \b
    Example:
      transformer-cli attention runs/toy 'Ein Hund schläft.' -o attention.png
    """
    from transformer_cli.inference.attention_maps import compute_attention_maps
    from transformer_cli.inference.attention_picture import draw, picture_format, select_panels
    from transformer_cli.inference.loading import load_torch_translator
    from transformer_cli.model.device import choose_device, choose_precision, use_threads
    from transformer_cli.runs.directory import RunDirectory

    options.check_output(output)
    with options.name_option("-o "):
        picture_format(output)
    options.check_sentence(sentence, "SENTENCE")
    if translation is not None:
        options.check_sentence(translation, "--translation")
    use_threads(threads)
    torch_device = choose_device(device)
    translator = load_torch_translator(
        RunDirectory(run), checkpoint, torch_device, choose_precision(precision, torch_device)
    ).with_search(beam_size)
    ids = None if translation is None else translator.tokenizers.tgt.encode(translation)
    maps = compute_attention_maps(translator, sentence.strip(), ids)
    with options.name_option("--"):
        panels = select_panels(maps, kind, layer, head)
    draw(panels, output)
    typer.echo(maps.translation)

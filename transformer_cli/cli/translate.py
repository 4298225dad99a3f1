"""``transformer-cli translate``."""

from pathlib import Path
from typing import Annotated

from transformer_cli.cli import options
from transformer_cli.config.choices import HIGHEST_PENALTY, DecodingErrors, EngineName
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.cli import translation
    from transformer_cli.inference import loading

Input = Annotated[
    Path, options.option("FILE", "Text, one sentence a line; or a table.", "--input", "-i")
]
Output = Annotated[Path, options.option("FILE", "Translations, line by line.", "--output", "-o")]
BatchTokens = Annotated[
    int | None,
    options.option("N", "Source tokens a batch, times beam.  [default: the run's]", min=1),
]
MaxLength = Annotated[
    int | None,
    options.option("N", "Most tokens in a translation.  [default: by its source]", min=1),
]
LengthPenalty = Annotated[
    float | None,
    options.option(
        "A",
        "Higher favours longer translations.  [default: the run's]",
        min=0.0,
        max=HIGHEST_PENALTY,
    ),
]
Errors = Annotated[DecodingErrors, options.option(None, "What is not UTF-8: an error, or U+FFFD.")]
Resume = Annotated[bool, options.flag("Resume an interrupted translation of files.", "--resume")]
NBest = Annotated[
    int | None,
    options.option("N", "Write the N best with scores, as JSON; widens the beam.", min=1),
]
Scores = Annotated[bool, options.flag("Write its score too, as JSON.", "--scores")]
PrefixFile = Annotated[Path | None, options.option("FILE", "Forced target prefixes, one a line.")]
Alignments = Annotated[Path | None, options.option("FILE", "Write word alignments, as in 0-0 1-2.")]
ReplaceUnk = Annotated[bool, options.flag("Copy source words for unknown ones.", "--replace-unk")]
Sample = Annotated[int | None, options.option("SEED", "Sample tokens, with this seed.", min=0)]
Engine = Annotated[
    EngineName,
    options.option(None, "Search engine; auto is CTranslate2 on a CPU if its output is torch's."),
]


def translate(
    run: options.Run,
    input_: Input = Path("-"),
    output: Output = Path("-"),
    src_column: options.SourceColumn = None,
    src_field: options.SourceField = None,
    checkpoint: options.Checkpoint = "best",
    ensemble: options.Ensemble = None,
    beam_size: options.BeamSize = None,
    batch_tokens: BatchTokens = None,
    max_length: MaxLength = None,
    length_penalty: LengthPenalty = None,
    errors: Errors = "strict",
    resume: Resume = False,
    n_best: NBest = None,
    scores: Scores = False,
    prefix_file: PrefixFile = None,
    alignments: Alignments = None,
    replace_unk: ReplaceUnk = False,
    sample: Sample = None,
    tag: options.Tag = None,
    engine: Engine = "auto",
    device: options.Device = "auto",
    precision: options.SearchPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    Files of any length take constant memory; FILE.partial has the translations until FILE is
    complete.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    given = translation.TranslateOptions(
        run=run,
        input=input_,
        output=output,
        src_column=src_column,
        src_field=src_field,
        checkpoint=checkpoint,
        ensemble=ensemble or [],
        compute=loading.ComputeOptions(engine, device, precision, threads, beam_size),
        batch_tokens=batch_tokens,
        max_length=max_length,
        length_penalty=length_penalty,
        errors=errors,
        resume=resume,
        n_best=n_best,
        scores=scores,
        prefix_file=prefix_file,
        alignments=alignments,
        replace_unk=replace_unk,
        sample=sample,
        tag=tag,
    )
    translation.translate_text(given)

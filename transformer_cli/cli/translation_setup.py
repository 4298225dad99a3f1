"""What ``translate`` puts together: options that are checked, a translator, and a job for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from transformer_cli.cli import options
from transformer_cli.cli.streams import open_input, prompt_for_lines
from transformer_cli.cli.translation_job import Job, Paths, run_job
from transformer_cli.config.choices import (
    DecodingErrors,
    DeviceName,
    EngineName,
    PrecisionName,
)
from transformer_cli.data.corpus import decode_lines
from transformer_cli.errors import UsageError
from transformer_cli.export.ctranslate2 import write_ctranslate2
from transformer_cli.extras import imported
from transformer_cli.inference import stream
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import (
    choose_engine,
    load_ctranslate2_translator,
    load_torch_translator,
)
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.device import choose_device, choose_precision, use_threads
from transformer_cli.ranks import Ranks
from transformer_cli.runs.directory import RunDirectory


@dataclass(frozen=True)
class TranslateOptions:
    """What ``transformer-cli translate`` was asked for: its options, and the run."""

    run: Path
    paths: Paths
    checkpoint: str
    beam_size: int | None
    batch_tokens: int | None
    max_length: int | None
    errors: DecodingErrors
    resume: bool
    n_best: int | None
    scores: bool
    replace_unk: bool
    engine: EngineName
    device: DeviceName
    precision: PrecisionName
    threads: int | None

    @property
    def output_format(self) -> stream.OutputFormat:
        """How translations are written."""
        with_alignments = self.paths.alignments is not None
        return stream.OutputFormat(self.n_best or (1 if self.scores else None), with_alignments)


def translate_text(asked: TranslateOptions) -> None:
    """Load the model, open the text, translate and write.

    Raises:
        UsageError: the options do not go together.
        TransformerCliError: something is missing or damaged, or cannot be written.
    """
    n_best, beam_size = asked.n_best, asked.beam_size
    if n_best is not None and beam_size is not None and n_best > beam_size:
        raise UsageError(
            f"translate: a beam of {beam_size} does not hold the {n_best} best; raise --beam-size, "
            "or leave it out"
        )
    ranks = Ranks.of_environment()
    asked.paths.check(asked.resume, ranks)
    use_threads(asked.threads)
    device = choose_device(asked.device, ranks)
    with (
        open_input(asked.paths.input) as source,
        _open_prefixes(asked) as prefixes,
        ranks.joined(device) as ranks,
    ):
        translator = _load_translator(asked, device)
        typed = source.isatty()
        lines = prompt_for_lines(source) if typed else source
        job = Job(
            translator,
            asked.output_format,
            decode_lines(lines, asked.paths.name, asked.errors),
            prefixes,
            asked.paths,
            1 if typed else stream.CHUNK_LINES,
            ranks,
        )
        run_job(job, {"errors": asked.errors}, asked.resume, flush=typed)


@contextmanager
def _open_prefixes(asked: TranslateOptions) -> Iterator[Iterator[str] | None]:
    path = asked.paths.prefixes
    if path is None:
        yield None
        return
    with open_input(path, "--prefix-file") as raw:
        yield decode_lines(raw, str(path), asked.errors)


def _load_translator(asked: TranslateOptions, device: torch.device) -> TextTranslator[SearchEngine]:
    run, checkpoint = RunDirectory(asked.run), asked.checkpoint
    engine = choose_engine(run, asked.engine)
    _check_engine(asked, engine)
    translator: TextTranslator[SearchEngine]
    if engine is TorchEngine:
        precision = choose_precision(asked.precision, device)
        translator = load_torch_translator(run, checkpoint, device, precision)
    else:
        if run.is_for_ctranslate2 and checkpoint != "best":
            raise UsageError(
                f"--checkpoint {checkpoint}: {run.path} holds one exported model; leave it out, "
                "or name the run that it was made of"
            )
        imported("ctranslate2", "export", "--engine ctranslate2")  # before the work
        with options.prefix_errors("--engine ctranslate2: "):
            translator = load_ctranslate2_translator(
                run, checkpoint, device, asked.precision, write_ctranslate2
            )
    translator = translator.with_search(asked.beam_size, asked.batch_tokens, asked.max_length)
    translator = translator.with_search(max(asked.n_best or 1, translator.decoding.beam_size))
    if asked.replace_unk:
        with options.prefix_errors("--replace-unk: "):
            translator = translator.with_unk_replacement()
    return translator


def _check_engine(asked: TranslateOptions, engine: type[SearchEngine]) -> None:
    unsupported = {
        "--prefix-file": asked.paths.prefixes is not None and not engine.supports_prefixes,
        "--alignments": asked.paths.alignments is not None and not engine.supports_alignments,
        "--replace-unk": asked.replace_unk and not engine.supports_alignments,
    }
    if any(unsupported.values()):
        names = " and ".join(
            option for option, is_unsupported in unsupported.items() if is_unsupported
        )
        raise UsageError(
            f"--engine ctranslate2: does not go with {names}; leave that "
            "out, or translate a run with --engine torch"
        )

"""Raises an error if CTranslate2 must be used but does not support the given options."""

from collections.abc import Sequence

from transformer_cli.base.errors import UsageError
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.directory import RunDirectory


def check_possible(
    run: RunDirectory,
    options: ComputeOptions,
    needing_torch: Sequence[str],
    is_asked: bool,
    is_exported: bool,
) -> None:
    """Raise a UsageError if CTranslate2 does not support the device or other options.

    ``is_asked`` says whether an option requests CTranslate2, and ``is_exported`` whether the run is
    a model exported for it; one of them is True.
    """
    by = "`precision` int8" if options.precision == "int8" else "`engine` ctranslate2"
    if options.device not in ("auto", "cpu"):
        what = by if is_asked else run.path
        raise UsageError(f"{what}: CTranslate2 only runs on CPUs here; use `device` cpu")
    if needing_torch:
        needing = " and ".join(needing_torch)
        if is_exported:
            raise UsageError(
                f"{run.path}: is a CTranslate2 model, which does not support {needing}; "
                "leave it out, or name the run that the model was exported from"
            )
        raise UsageError(f"{by}: does not support {needing}; leave out {by} or {needing}")

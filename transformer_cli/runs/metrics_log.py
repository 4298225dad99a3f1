"""Write and read a run's metrics.jsonl: its records of steps, validations and sessions."""

import json
import math
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.base.errors import RunError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text

if TYPE_CHECKING:
    import torch

Record = dict[str, Any]
_MAX_BYTES = 1 << 26  # records of ten million steps; in memory, each takes several times its size
_MAX_LINE_BYTES = 1 << 20


def begin_log(path: Path, last_step: int, is_validated: bool = True) -> None:
    """Create metrics.jsonl, or drop records after ``last_step``, and its unfinished validation."""
    last = (last_step, "validation" if is_validated else "train")  # "validation" is last
    kept = [each for each in read_records(path) if (each["step"], each["kind"]) <= last]
    write_text(path, "".join(f"{json.dumps(record)}\n" for record in kept))


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record to metrics.jsonl as a line of JSON; see ``append_to_log``."""
    append_to_log(path, f"{json.dumps(record)}\n".encode())


def append_to_log(path: Path, data: bytes) -> None:
    """Append to a file in the run directory; do not follow a link."""
    try:
        with open_regular(path, "ab") as file:
            file.write(data)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written: {error.strerror}; fix this, then run the same command "
            "again to resume from the last checkpoint"
        ) from error


def perplexity(loss: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite on overflow."""
    return math.inf if loss >= 700.0 else math.exp(loss)


def read_records(path: Path) -> list[Record]:
    """Return the records in a metrics.jsonl, or an empty list if there is no such file.

    Invalid lines are left out: the last one may be incomplete.
    """
    records = []
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                raise RunError(f"{path}: has more than {_MAX_BYTES >> 20} MiB; move it elsewhere")
            for line in iter(partial(file.readline, _MAX_LINE_BYTES), b""):
                with suppress(ValueError, RecursionError):
                    match record := json.loads(line):
                        # numpy cannot hold larger steps
                        case {"kind": str(), "step": int() as step} if 0 <= step < 2**63:
                            records.append(record)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); restore it, or delete it"
        ) from error
    return records


SESSION_KIND = "session"  # kind of the record that starts each session of a training


def describe_environment(
    device: "torch.device", precision: "torch.dtype", processes: int = 1
) -> Record:
    """Return what results depend on besides settings, text and weights, e.g. the device."""
    import torch  # readers of records do not need it

    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
        "precision": str(precision).removeprefix("torch."),
        "threads": torch.get_num_threads(),  # of each process
        "processes": processes,
        "torch": str(torch.__version__),
        "transformer_cli": __version__,
        "python": platform.python_version(),
    }


def last_session(path: Path) -> Record:
    """Return the record in metrics.jsonl that the last start of ``train`` wrote; {} if none."""
    sessions = [record for record in read_records(path) if record["kind"] == SESSION_KIND]
    return sessions[-1] if sessions else {}

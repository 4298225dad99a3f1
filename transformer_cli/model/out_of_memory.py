"""Run a batch in parts where the whole of it does not fit into memory."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from transformer_cli.errors import is_out_of_memory
from transformer_cli.model.device import empty_cache

Result = TypeVar("Result")


def split_when_out_of_memory(
    function: Callable[[np.ndarray], Result], rows: np.ndarray
) -> list[Result]:
    """Call ``function`` on ``rows``; out of memory, on each half of them, and so on.

    Args:
        function: computes something of these rows alone. It is called again on rows that it ran
            out of memory on, so it must leave nothing behind when it raises.
        rows: what to compute, for instance the indices of a batch's sentences.

    Returns:
        What ``function`` returned for each part, in the order of ``rows``.

    Raises:
        MemoryError, RuntimeError: a single row does not fit, or something else is wrong.
    """
    results, parts = [], [rows]
    while parts:
        part = parts.pop()
        try:
            results.append(function(part))
        except (MemoryError, RuntimeError) as error:
            if len(part) < 2 or not is_out_of_memory(error):
                raise
        else:
            continue
        # Outside the handler, where the traceback no longer holds the tensors of the call.
        empty_cache()
        parts += reversed(np.array_split(part, 2))
    return results

"""How fast training and decoding are beside other programs, on the same machine and data."""

import os
from pathlib import Path

# Benchmarks' models would push the user's own out of the cache.
os.environ.setdefault(
    "TRANSFORMER_CLI_CACHE", str(Path(__file__).parents[1] / ".bench" / "converted")
)

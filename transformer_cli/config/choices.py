"""Choices of the command line that are no part of an experiment. Light to import."""

from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
PrecisionName = Literal["auto", "float32", "bfloat16"]
DecodingErrors = Literal["strict", "replace"]
# Of a model that only translates.
SearchPrecisionName = Literal["auto", "float32", "bfloat16", "int8"]
Quantization = Literal[
    "float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_bfloat16"
]

LONGEST_SOURCE = 1024
"""Most tokens of a line that is translated as one: attention's cost grows with their square."""
HIGHEST_PENALTY = 100.0
"""Highest length penalty, far above any use: 1 compares means over tokens, nearly."""
LARGEST_BEAM = 1000
"""Memory grows with the beam. A line of 1,024 tokens with this one takes gigabytes already."""
MOST_BATCH_TOKENS = 2**20
"""Source tokens that are searched at once: what they need has to fit into memory."""
MOST_THREADS = 4096
"""CPU threads that may be asked for. Of a billion, what makes them ends the whole process."""

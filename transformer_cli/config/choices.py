"""Choices of the command line that are no part of an experiment. Light to import."""

from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["auto", "float32", "bfloat16"]
DecodingErrors = Literal["strict", "replace"]

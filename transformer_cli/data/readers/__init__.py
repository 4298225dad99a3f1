"""Parallel text in the formats that people have it in, one format per file."""

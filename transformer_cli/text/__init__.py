"""Tokenizers: text to ids and back, by words or subwords."""

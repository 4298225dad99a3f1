"""Marian models' tokenizers: two SentencePiece models over tables of ids."""

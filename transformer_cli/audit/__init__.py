"""Checks of a corpus: what is repeated, misaligned, too long or oddly written."""

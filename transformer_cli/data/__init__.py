"""Parallel text from its four sources, and the batches made of it."""

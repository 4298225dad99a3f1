"""A run directory: one experiment's settings, tokenizers, checkpoints and metrics."""

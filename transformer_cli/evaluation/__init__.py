"""Scores of translations, perplexity, and comparisons of trained models."""

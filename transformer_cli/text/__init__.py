"""Text to ids and back: words or subwords, learned from training text."""

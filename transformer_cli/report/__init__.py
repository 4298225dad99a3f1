"""A trained run as one HTML page: curves, settings, corpus, scores, examples, attention."""

"""Filters of pairs: which are left out of a corpus, and why."""

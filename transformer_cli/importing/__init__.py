"""Models that other programs made, as runs."""

"""How right and how fast this program is on a GPU: ``python -m benchmarks.gpu --out DIR``."""

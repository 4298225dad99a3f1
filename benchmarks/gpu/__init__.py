"""How right and how fast this program is on a GPU: ``python -m benchmarks.gpu --out DIR``.

A GPU may be at hand for ten minutes only, on a machine that is bare. So each part runs in a process
of its own with a time limit, and its rows are on disk as soon as they are measured: a part that
fails or hangs costs its own rows only.
"""

"""The features that this extension adds, as plain data."""

api = 1
provides = {"ranks": {"torchrun": {"load": "torchrun:find_ranks"}}}

"""The features that this extension adds, as plain data."""

provides = {"ranks": {"torchrun": {"load": "torchrun:find_ranks"}}}

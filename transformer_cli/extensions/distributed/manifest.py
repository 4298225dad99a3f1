provides = {"ranks": {"torchrun": {"load": "torchrun:find_ranks"}}}

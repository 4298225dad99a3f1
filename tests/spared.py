"""What takes long and changes nothing: tests wait for no disk, and seed no GPU that is none."""

import os

import torch

# What a killed process has written, the kernel keeps; a hundred times in the tiniest training.
vars(os)["fsync"] = lambda _: None
if not torch.cuda.is_available():
    # torch's own keeps a stack for each kind of GPU: a seventh of a tiny training.
    vars(torch)["manual_seed"] = torch.default_generator.manual_seed

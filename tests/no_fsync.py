"""No test waits for the disk: what a killed process has written, the kernel keeps."""

import os

vars(os)["fsync"] = lambda _: None  # a hundred times in the tiniest training

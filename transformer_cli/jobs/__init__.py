"""Sweeps and distillations as jobs, and what runs these; growing a run; what a machine can do."""

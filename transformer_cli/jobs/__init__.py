"""Sweeps and distillations, functions that give jobs, and what runs these; and growing a run."""

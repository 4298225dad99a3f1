"""Which settings may change when a run goes on."""

MAY_CHANGE = {
    "data.test.": "the texts to evaluate on, which training does not read",
    "decoding.": "how `evaluate`, `translate` and the other commands search, unless told otherwise",
    "training.epochs": "how long to train. A `linear` or `cosine` schedule comes down to 0 at the "
    "new end, so that the learning rate jumps: `train` says from where to where",
    "training.max_steps": "the same",
    "training.patience": "how long to wait for a better validation; it is counted as if it had "
    "been so from the start",
    "training.keep_last": "how many checkpoints are kept from now on",
    "training.save_every": "how often they are written from now on",
    "training.skip_nonfinite": "how many steps may be left out, counted from the start",
    "training.accumulate": "only together with the number of processes, so that a step has as many "
    "batches as before",
}
"""By key, or by the start of keys: what the change does. Weights depend on none of them, apart from
how long to go on.
"""

"""What this extension adds, as plain data."""

api = 1
provides = {
    "setting": {
        "training.src_bpe_dropout": {"load": "settings:AugmentationSettings"},
        "training.tgt_bpe_dropout": {"load": "settings:AugmentationSettings"},
        "training.concatenate": {"load": "settings:AugmentationSettings"},
    },
    "augmentation": {
        "bpe_dropout": {"load": "bpe_dropout:build_bpe_dropout", "changes": "subwords"},
        "concatenation": {"load": "concatenation:build_concatenation", "changes": "rows"},
    },
}

provides = {
    "training settings": {"augmentation": {"load": "epoch_text:AugmentationSettings"}},
    "augmentation": {"epoch_text": {"load": "epoch_text:find_changes"}},
}

"""One model trained on what others translate."""

"""From logits to better weights."""

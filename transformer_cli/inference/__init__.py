"""From weights to text."""

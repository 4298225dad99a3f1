"""From weights to text and scores."""

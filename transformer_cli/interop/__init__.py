"""Models of transformers (Hugging Face), in both directions."""

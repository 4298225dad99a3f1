"""The encoder-decoder Transformer. It knows integers and tensors only."""

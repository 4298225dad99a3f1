"""How fast training and decoding are beside other programs, on the same machine and data."""

"""A trained model in other programs' formats, one module a format."""

"""The kinds of tokenizers: of each, what its tokenizer.json says, and how it is made and loaded.

A kind is a module with a ``Description``, whose ``load`` makes the tokenizers of a directory, and a
function ``learn``, which fills a directory. ``text/tokenizer.py`` has the list of them.
"""

"""The features that this extension adds, as plain data."""

needs = ("ctranslate2",)
provides = {"command": {"bench": {"load": "command:bench"}}}

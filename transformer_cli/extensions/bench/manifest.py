"""The features that this extension adds, as plain data."""

api = 1
needs = ("ctranslate2",)
provides = {"command": {"bench": {"load": "command:bench"}}}

needs = ("ctranslate2",)
provides = {"command": {"bench": {"load": "command:bench"}}}

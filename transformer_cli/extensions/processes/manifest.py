"""The features that this extension adds, as plain data."""

api = 1
provides = {"executor": {"spawned": {"load": "lazy_pool:find_pool"}}}

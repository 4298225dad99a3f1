"""The features that this extension adds, as plain data."""

provides = {"executor": {"spawned": {"load": "lazy_pool:find_pool"}}}

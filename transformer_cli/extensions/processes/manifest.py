"""What this extension adds, as plain data."""

api = 1
provides = {"pool": {"spawned": {"load": "spawning:open_pool"}}}

"""What this extension adds, as plain data."""

api = 1
provides = {
    "download": {"https": {"load": "fetching:fetch", "find": "fetching:find"}},
}

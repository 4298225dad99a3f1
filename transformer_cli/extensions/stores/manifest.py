"""What this extension adds, as plain data."""

api = 1
provides = {
    "location": {
        "http": {"load": "fetching:WEB"},
        "https": {"load": "fetching:WEB"},
        "*": {"load": "objects:OBJECTS"},  # whatever stores fsspec knows: s3, gs, hf
        "zip": {"load": "archives:ZIP", "inside": ".zip"},
    }
}

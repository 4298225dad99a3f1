"""What this extension adds, as plain data."""

api = 1
provides = {
    "address": {
        "online": {"load": "addresses:check_address", "hide": "addresses:hide_credentials"}
    },
    "location": {
        "http": {"load": "fetching:WEB"},
        "https": {"load": "fetching:WEB"},
        "*": {"load": "objects:OBJECTS"},  # whatever stores fsspec knows: s3, gs, hf
        "zip": {"load": "archives:ZIP", "inside": ".zip"},
    },
}

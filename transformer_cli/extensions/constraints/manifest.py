"""What this extension adds, as plain data."""

api = 1
provides = {
    "codec": {"reserved": {"load": "kind:KIND"}},
    "augmentation": {"terms": {"load": "kind:build_inline_terms"}},
}

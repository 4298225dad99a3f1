provides = {
    "compression": {
        "gzip": {"load": "formats:GZIP", "ending": ".gz", "magic": b"\x1f\x8b"},
        "xz": {"load": "formats:XZ", "ending": ".xz", "magic": b"\xfd7zXZ\0"},
        "zstd": {"load": "formats:ZSTD", "ending": ".zst", "magic": b"\x28\xb5\x2f\xfd"},
    }
}

provides = {
    "address": {
        "online": {"load": "addresses:check_address", "hide": "addresses:hide_credentials"}
    },
    "corpus": {
        "multi30k": {
            "settings": "settings:Multi30kData",
            "load": "multi30k:Multi30kKind",
            "splits": "train val test_2016_flickr test_2017_flickr test_2017_mscoco "
            "test_2018_flickr",
        }
    },
    "location": {
        "http": {"load": "fetching:WEB"},
        "https": {"load": "fetching:WEB"},
        "*": {"load": "objects:OBJECTS"},  # all stores that fsspec knows: s3, gs, hf
        "zip": {
            "load": "archives:ZIP",
            "find": "archives:find_archive",
            "inside": ".zip",
            "magic": b"PK\3\4",
        },
    },
}

provides = {"executor": {"spawned": {"load": "lazy_pool:find_pool"}}}

needs = ("exchange", "serve")
provides = {
    "export format": {
        "web": {
            "load": "to_web:write_web",
            "check": "to_web:check_web",
            "reader": "the web page",
            "package": "onnx",
            "extra": "export",
            "values": "norm_kind: layernorm",  # torch's exporter supports no other
        }
    }
}

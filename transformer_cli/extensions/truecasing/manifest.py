needs = ("verbatim",)
provides = {
    "tokenizer settings": {"truecase": {"load": "settings:TruecaseSettings"}},
    # After `reserved`, so that lines are restored before placeholders and terms are found in them.
    "codec": {"truecase": {"load": "kind:KIND", "acts_unasked": True}},
}

"""The features that this extension adds, as plain data."""

api = 1
needs = ("truecasing", "verbatim")
provides = {
    "training settings": {"noise": {"load": "settings:NoiseSettings"}},
    "augmentation": {"noise": {"load": "settings:find_changes"}},
    "evaluate options": {"perturb": {"load": "options:PerturbOptions"}},
    "report options": {"perturb": {"load": "options:PerturbOptions"}},
    "compare options": {"perturb": {"load": "options:PerturbOptions"}},
    # A rule is a function (pair, ``rules.Context``) -> pair.
    "noise rule": {
        "all_caps": {"load": "rules:all_caps"},
        "no_caps": {"load": "rules:no_caps"},
        "title_case": {"load": "rules:title_case"},
        "typos": {"load": "rules:typos"},
        "no_diacritics": {"load": "rules:no_diacritics"},
        "emoji": {"load": "rules:emoji"},
        "in_quotes": {"load": "rules:in_quotes"},
        "no_punctuation": {"load": "rules:no_punctuation"},
        "wrong_spaces": {"load": "rules:wrong_spaces"},
        "two_sentences": {"load": "rules:two_sentences"},
    },
}

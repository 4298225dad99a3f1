needs = ("truecasing", "verbatim")
_RULES = (
    *("all_caps", "no_caps", "title_case", "typos", "no_diacritics", "emoji", "in_quotes"),
    *("no_punctuation", "wrong_spaces", "two_sentences"),
)
provides = {
    "training settings": {"noise": {"load": "settings:NoiseSettings"}},
    "augmentation": {"noise": {"load": "settings:find_changes"}},
    "evaluate options": {"perturb": {"load": "options:PerturbOptions"}},
    "report options": {"perturb": {"load": "options:PerturbOptions"}},
    "compare options": {"perturb": {"load": "options:PerturbOptions"}},
    # A rule is a function (pair, ``rules.Context``) -> pair.
    "noise rule": {name: {"load": f"rules:{name}"} for name in _RULES},
}

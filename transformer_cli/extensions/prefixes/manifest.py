provides = {"translate options": {"prefixes": {"load": "options:PrefixOptions"}}}

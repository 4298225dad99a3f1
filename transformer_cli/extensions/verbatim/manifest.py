"""The features that this extension adds, as plain data."""

api = 1
SIGNS = r"[%<{&@]|://|www\."
"""A regular expression; each verbatim part, such as '%s' or a URL, has at least one match of it."""

provides = {"unchanged parts": {"verbatim": {"load": "verbatim_parts:has_words", "signs": SIGNS}}}

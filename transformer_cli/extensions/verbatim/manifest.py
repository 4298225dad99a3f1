"""The features that this extension adds, as plain data."""

api = 1
SIGNS = r"[%<{&@]|://|www\."
"""Each verbatim part has one of these."""

provides = {"unchanged parts": {"verbatim": {"load": "verbatim_parts:has_words", "signs": SIGNS}}}

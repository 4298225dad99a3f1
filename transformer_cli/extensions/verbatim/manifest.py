SIGNS = r"[%<{&@]|://|www\."
"""A regular expression with at least one match in each verbatim part, such as '%s' or a URL."""

provides = {"unchanged parts": {"verbatim": {"load": "verbatim_parts:has_words", "signs": SIGNS}}}

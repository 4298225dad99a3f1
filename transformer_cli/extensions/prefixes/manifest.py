"""The features that this extension adds, as plain data."""

provides = {"translate options": {"prefixes": {"load": "options:PrefixOptions"}}}

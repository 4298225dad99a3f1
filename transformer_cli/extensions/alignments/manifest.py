"""The features that this extension adds, as plain data."""

api = 1
provides = {"translate options": {"alignments": {"load": "options:AlignmentOptions"}}}

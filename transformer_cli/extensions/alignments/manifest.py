"""The features that this extension adds, as plain data."""

provides = {"translate options": {"alignments": {"load": "options:AlignmentOptions"}}}

"""The features that this extension adds, as plain data."""

provides = {"translate options": {"many files": {"load": "options:ManyFilesOptions"}}}

"""The features that this extension adds, as plain data."""

api = 1
provides = {"translate options": {"many files": {"load": "options:ManyFilesOptions"}}}

"""The features that this extension adds, as plain data."""

api = 1
provides = {"evaluate options": {"comet": {"load": "options:CometOptions"}}}
